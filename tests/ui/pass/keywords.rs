//! Every keyword of every edition, strict, reserved or weak, as the name of a phase: its function is called by it. The others are
//! names of data, of events and of what a phase may become. Also compiled by edition 2021: see `book/doctests.rs`.
#![allow(non_camel_case_types, dead_code)]

use fom_runtime::{LockSet, prelude::*};

struct r#gen {}

enum Event {
    As,
    Break,
    Const,
    Continue,
    Else,
    Enum,
    Extern,
    False,
    Fn,
    For,
    If,
    Impl,
    In,
    Let,
    Loop,
    Match,
    Mod,
    Move,
    Mut,
    Pub,
    Ref,
    Return,
    Static,
    Struct,
    Trait,
    True,
    Type,
    Unsafe,
    Use,
    Where,
    While,
    Async,
    Await,
    Dyn,
    Abstract,
    Become,
    Box,
    Do,
    Final,
    Macro,
    Override,
    Priv,
    Typeof,
    Unsized,
    Virtual,
    Yield,
    Try,
    Gen,
    MacroRules,
    Raw,
    Safe,
    Union,
    Auto,
    Default,
}

/// Phases in snake case, as their functions, and fields of the same names.
#[fom(operation(r#gen), event(Event), transient)]
enum Keywords {
    #[phase(start, to(Break), sync, on(As))]
    As,
    #[phase(to(Const), sync, on(Break))]
    Break { r#break: u8 },
    #[phase(to(Continue), sync, on(Const))]
    Const { r#const: u8 },
    #[phase(to(Else), sync, on(Continue))]
    Continue { r#continue: u8 },
    #[phase(to(Enum), sync, on(Else))]
    Else { r#else: u8 },
    #[phase(to(Extern), sync, on(Enum))]
    Enum { r#enum: u8 },
    #[phase(to(False), sync, on(Extern))]
    Extern { r#extern: u8 },
    #[phase(to(Fn), sync, on(False))]
    False { r#false: u8 },
    #[phase(to(For), sync, on(Fn))]
    Fn { r#fn: u8 },
    #[phase(to(If), sync, on(For))]
    For { r#for: u8 },
    #[phase(to(Impl), sync, on(If))]
    If { r#if: u8 },
    #[phase(to(In), sync, on(Impl))]
    Impl { r#impl: u8 },
    #[phase(to(Let), sync, on(In))]
    In { r#in: u8 },
    #[phase(to(Loop), sync, on(Let))]
    Let { r#let: u8 },
    #[phase(to(Match), sync, on(Loop))]
    Loop { r#loop: u8 },
    #[phase(to(Mod), sync, on(Match))]
    Match { r#match: u8 },
    #[phase(to(Move), sync, on(Mod))]
    Mod { r#mod: u8 },
    #[phase(to(Mut), sync, on(Move))]
    Move { r#move: u8 },
    #[phase(to(Pub), sync, on(Mut))]
    Mut { r#mut: u8 },
    #[phase(to(Ref), sync, on(Pub))]
    Pub { r#pub: u8 },
    #[phase(to(Return), sync, on(Ref))]
    Ref { r#ref: u8 },
    #[phase(to(Static), sync, on(Return))]
    Return { r#return: u8 },
    #[phase(to(Struct), sync, on(Static))]
    Static { r#static: u8 },
    #[phase(to(Trait), sync, on(Struct))]
    Struct { r#struct: u8 },
    #[phase(to(True), sync, on(Trait))]
    Trait { r#trait: u8 },
    #[phase(to(Type), sync, on(True))]
    True { r#true: u8 },
    #[phase(
        to(Unsafe),
        sync,
        on(Type),
        within = "1s",
        late,
        retry = "2, 1ms..2ms",
        exhausted,
        failed(End),
        locks
    )]
    Type { r#type: u8 },
    #[phase(to(Use), sync, on(Unsafe))]
    Unsafe { r#unsafe: u8 },
    #[phase(to(Where), sync, on(Use))]
    Use { r#use: u8 },
    #[phase(to(While), sync, on(Where))]
    Where { r#where: u8 },
    #[phase(to(Async), sync, on(While))]
    While { r#while: u8 },
    #[phase(to(Await), sync, on(Async))]
    Async { r#async: u8 },
    #[phase(to(Dyn), sync, on(Await))]
    Await { r#await: u8 },
    #[phase(to(Abstract), sync, on(Dyn))]
    Dyn { r#dyn: u8 },
    #[phase(to(Become), sync, on(Abstract))]
    Abstract { r#abstract: u8 },
    #[phase(to(Box), sync, on(Become))]
    Become { r#become: u8 },
    #[phase(to(Do), sync, on(Box))]
    Box { r#box: u8 },
    #[phase(to(Final), sync, on(Do))]
    Do { r#do: u8 },
    #[phase(to(Macro), sync, on(Final))]
    Final { r#final: u8 },
    #[phase(to(Override), sync, on(Macro))]
    Macro { r#macro: u8 },
    #[phase(to(Priv), sync, on(Override))]
    Override { r#override: u8 },
    #[phase(to(Typeof), sync, on(Priv))]
    Priv { r#priv: u8 },
    #[phase(to(Unsized), sync, on(Typeof))]
    Typeof { r#typeof: u8 },
    #[phase(to(Virtual), sync, on(Unsized))]
    Unsized { r#unsized: u8 },
    #[phase(to(Yield), sync, on(Virtual))]
    Virtual { r#virtual: u8 },
    #[phase(to(Try), sync, on(Yield))]
    Yield { r#yield: u8 },
    #[phase(to(Gen), sync, on(Try))]
    Try { r#try: u8 },
    #[phase(
        to(MacroRules),
        sync,
        on(Gen),
        within = "1s",
        late,
        retry = "2, 1ms..2ms",
        exhausted,
        failed(End),
        locks
    )]
    Gen { r#gen: u8 },
    #[phase(to(Raw), sync, on(MacroRules))]
    MacroRules { macro_rules: u8 },
    #[phase(to(Safe), sync, on(Raw))]
    Raw { raw: u8 },
    #[phase(to(Union), sync, on(Safe))]
    Safe { safe: u8 },
    #[phase(
        to(Auto),
        sync,
        on(Union),
        within = "1s",
        late,
        retry = "2, 1ms..2ms",
        exhausted,
        failed(End),
        locks
    )]
    Union { union: u8 },
    #[phase(to(Default), sync, on(Auto))]
    Auto { auto: u8 },
    #[phase(to(End), sync, on(Default))]
    Default { default: u8 },
    #[phase(end)]
    End,
}

impl KeywordsTransitions for r#gen {
    fn r#as(&mut self, _: &mut Cx<'_, Event>, _: Event) -> Result<KeywordsAfterAs, BoxError> {
        Ok(KeywordsAfterAs::Break { r#break: 1 })
    }
    fn r#break(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#break: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterBreak, BoxError> {
        *r#break += 1;
        Ok(KeywordsAfterBreak::Const { r#const: 1 })
    }
    fn r#const(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#const: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterConst, BoxError> {
        *r#const += 1;
        Ok(KeywordsAfterConst::Continue { r#continue: 1 })
    }
    fn r#continue(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#continue: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterContinue, BoxError> {
        *r#continue += 1;
        Ok(KeywordsAfterContinue::Else { r#else: 1 })
    }
    fn r#else(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#else: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterElse, BoxError> {
        *r#else += 1;
        Ok(KeywordsAfterElse::Enum { r#enum: 1 })
    }
    fn r#enum(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#enum: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterEnum, BoxError> {
        *r#enum += 1;
        Ok(KeywordsAfterEnum::Extern { r#extern: 1 })
    }
    fn r#extern(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#extern: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterExtern, BoxError> {
        *r#extern += 1;
        Ok(KeywordsAfterExtern::False { r#false: 1 })
    }
    fn r#false(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#false: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterFalse, BoxError> {
        *r#false += 1;
        Ok(KeywordsAfterFalse::Fn { r#fn: 1 })
    }
    fn r#fn(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#fn: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterFn, BoxError> {
        *r#fn += 1;
        Ok(KeywordsAfterFn::For { r#for: 1 })
    }
    fn r#for(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#for: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterFor, BoxError> {
        *r#for += 1;
        Ok(KeywordsAfterFor::If { r#if: 1 })
    }
    fn r#if(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#if: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterIf, BoxError> {
        *r#if += 1;
        Ok(KeywordsAfterIf::Impl { r#impl: 1 })
    }
    fn r#impl(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#impl: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterImpl, BoxError> {
        *r#impl += 1;
        Ok(KeywordsAfterImpl::In { r#in: 1 })
    }
    fn r#in(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#in: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterIn, BoxError> {
        *r#in += 1;
        Ok(KeywordsAfterIn::Let { r#let: 1 })
    }
    fn r#let(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#let: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterLet, BoxError> {
        *r#let += 1;
        Ok(KeywordsAfterLet::Loop { r#loop: 1 })
    }
    fn r#loop(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#loop: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterLoop, BoxError> {
        *r#loop += 1;
        Ok(KeywordsAfterLoop::Match { r#match: 1 })
    }
    fn r#match(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#match: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterMatch, BoxError> {
        *r#match += 1;
        Ok(KeywordsAfterMatch::Mod { r#mod: 1 })
    }
    fn r#mod(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#mod: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterMod, BoxError> {
        *r#mod += 1;
        Ok(KeywordsAfterMod::Move { r#move: 1 })
    }
    fn r#move(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#move: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterMove, BoxError> {
        *r#move += 1;
        Ok(KeywordsAfterMove::Mut { r#mut: 1 })
    }
    fn r#mut(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#mut: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterMut, BoxError> {
        *r#mut += 1;
        Ok(KeywordsAfterMut::Pub { r#pub: 1 })
    }
    fn r#pub(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#pub: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterPub, BoxError> {
        *r#pub += 1;
        Ok(KeywordsAfterPub::Ref { r#ref: 1 })
    }
    fn r#ref(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#ref: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterRef, BoxError> {
        *r#ref += 1;
        Ok(KeywordsAfterRef::Return { r#return: 1 })
    }
    fn r#return(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#return: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterReturn, BoxError> {
        *r#return += 1;
        Ok(KeywordsAfterReturn::Static { r#static: 1 })
    }
    fn r#static(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#static: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterStatic, BoxError> {
        *r#static += 1;
        Ok(KeywordsAfterStatic::Struct { r#struct: 1 })
    }
    fn r#struct(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#struct: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterStruct, BoxError> {
        *r#struct += 1;
        Ok(KeywordsAfterStruct::Trait { r#trait: 1 })
    }
    fn r#trait(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#trait: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterTrait, BoxError> {
        *r#trait += 1;
        Ok(KeywordsAfterTrait::True { r#true: 1 })
    }
    fn r#true(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#true: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterTrue, BoxError> {
        *r#true += 1;
        Ok(KeywordsAfterTrue::Type { r#type: 1 })
    }
    fn r#type(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#type: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterType, BoxError> {
        *r#type += 1;
        Ok(KeywordsAfterType::Unsafe { r#unsafe: 1 })
    }
    fn type_late(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
    ) -> Result<KeywordsAfterType, BoxError> {
        Ok(KeywordsAfterType::Unsafe { r#unsafe: 1 })
    }
    fn type_exhausted(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
    ) -> Result<KeywordsAfterType, BoxError> {
        Ok(KeywordsAfterType::Unsafe { r#unsafe: 1 })
    }
    fn type_failed(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
        _: Cause<BoxError>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    fn type_locks(&self, _: &Cx<'_, Event>, _: &u8) -> LockSet {
        LockSet::new()
    }
    fn r#unsafe(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#unsafe: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterUnsafe, BoxError> {
        *r#unsafe += 1;
        Ok(KeywordsAfterUnsafe::Use { r#use: 1 })
    }
    fn r#use(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#use: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterUse, BoxError> {
        *r#use += 1;
        Ok(KeywordsAfterUse::Where { r#where: 1 })
    }
    fn r#where(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#where: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterWhere, BoxError> {
        *r#where += 1;
        Ok(KeywordsAfterWhere::While { r#while: 1 })
    }
    fn r#while(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#while: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterWhile, BoxError> {
        *r#while += 1;
        Ok(KeywordsAfterWhile::Async { r#async: 1 })
    }
    fn r#async(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#async: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterAsync, BoxError> {
        *r#async += 1;
        Ok(KeywordsAfterAsync::Await { r#await: 1 })
    }
    fn r#await(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#await: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterAwait, BoxError> {
        *r#await += 1;
        Ok(KeywordsAfterAwait::Dyn { r#dyn: 1 })
    }
    fn r#dyn(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#dyn: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterDyn, BoxError> {
        *r#dyn += 1;
        Ok(KeywordsAfterDyn::Abstract { r#abstract: 1 })
    }
    fn r#abstract(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#abstract: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterAbstract, BoxError> {
        *r#abstract += 1;
        Ok(KeywordsAfterAbstract::Become { r#become: 1 })
    }
    fn r#become(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#become: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterBecome, BoxError> {
        *r#become += 1;
        Ok(KeywordsAfterBecome::Box { r#box: 1 })
    }
    fn r#box(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#box: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterBox, BoxError> {
        *r#box += 1;
        Ok(KeywordsAfterBox::Do { r#do: 1 })
    }
    fn r#do(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#do: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterDo, BoxError> {
        *r#do += 1;
        Ok(KeywordsAfterDo::Final { r#final: 1 })
    }
    fn r#final(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#final: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterFinal, BoxError> {
        *r#final += 1;
        Ok(KeywordsAfterFinal::Macro { r#macro: 1 })
    }
    fn r#macro(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#macro: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterMacro, BoxError> {
        *r#macro += 1;
        Ok(KeywordsAfterMacro::Override { r#override: 1 })
    }
    fn r#override(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#override: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterOverride, BoxError> {
        *r#override += 1;
        Ok(KeywordsAfterOverride::Priv { r#priv: 1 })
    }
    fn r#priv(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#priv: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterPriv, BoxError> {
        *r#priv += 1;
        Ok(KeywordsAfterPriv::Typeof { r#typeof: 1 })
    }
    fn r#typeof(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#typeof: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterTypeof, BoxError> {
        *r#typeof += 1;
        Ok(KeywordsAfterTypeof::Unsized { r#unsized: 1 })
    }
    fn r#unsized(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#unsized: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterUnsized, BoxError> {
        *r#unsized += 1;
        Ok(KeywordsAfterUnsized::Virtual { r#virtual: 1 })
    }
    fn r#virtual(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#virtual: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterVirtual, BoxError> {
        *r#virtual += 1;
        Ok(KeywordsAfterVirtual::Yield { r#yield: 1 })
    }
    fn r#yield(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#yield: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterYield, BoxError> {
        *r#yield += 1;
        Ok(KeywordsAfterYield::Try { r#try: 1 })
    }
    fn r#try(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#try: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterTry, BoxError> {
        *r#try += 1;
        Ok(KeywordsAfterTry::Gen { r#gen: 1 })
    }
    fn r#gen(
        &mut self,
        _: &mut Cx<'_, Event>,
        r#gen: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterGen, BoxError> {
        *r#gen += 1;
        Ok(KeywordsAfterGen::MacroRules { macro_rules: 1 })
    }
    fn gen_late(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
    ) -> Result<KeywordsAfterGen, BoxError> {
        Ok(KeywordsAfterGen::MacroRules { macro_rules: 1 })
    }
    fn gen_exhausted(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
    ) -> Result<KeywordsAfterGen, BoxError> {
        Ok(KeywordsAfterGen::MacroRules { macro_rules: 1 })
    }
    fn gen_failed(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
        _: Cause<BoxError>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    fn gen_locks(&self, _: &Cx<'_, Event>, _: &u8) -> LockSet {
        LockSet::new()
    }
    fn macro_rules(
        &mut self,
        _: &mut Cx<'_, Event>,
        macro_rules: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterMacroRules, BoxError> {
        *macro_rules += 1;
        Ok(KeywordsAfterMacroRules::Raw { raw: 1 })
    }
    fn raw(
        &mut self,
        _: &mut Cx<'_, Event>,
        raw: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterRaw, BoxError> {
        *raw += 1;
        Ok(KeywordsAfterRaw::Safe { safe: 1 })
    }
    fn safe(
        &mut self,
        _: &mut Cx<'_, Event>,
        safe: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterSafe, BoxError> {
        *safe += 1;
        Ok(KeywordsAfterSafe::Union { union: 1 })
    }
    fn union(
        &mut self,
        _: &mut Cx<'_, Event>,
        union: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterUnion, BoxError> {
        *union += 1;
        Ok(KeywordsAfterUnion::Auto { auto: 1 })
    }
    fn union_late(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
    ) -> Result<KeywordsAfterUnion, BoxError> {
        Ok(KeywordsAfterUnion::Auto { auto: 1 })
    }
    fn union_exhausted(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
    ) -> Result<KeywordsAfterUnion, BoxError> {
        Ok(KeywordsAfterUnion::Auto { auto: 1 })
    }
    fn union_failed(
        &mut self,
        _: &mut Cx<'_, Event>,
        _: &mut u8,
        _: Cause<BoxError>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    fn union_locks(&self, _: &Cx<'_, Event>, _: &u8) -> LockSet {
        LockSet::new()
    }
    fn auto(
        &mut self,
        _: &mut Cx<'_, Event>,
        auto: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterAuto, BoxError> {
        *auto += 1;
        Ok(KeywordsAfterAuto::Default { default: 1 })
    }
    fn default(
        &mut self,
        _: &mut Cx<'_, Event>,
        default: &mut u8,
        _: Event,
    ) -> Result<KeywordsAfterDefault, BoxError> {
        *default += 1;
        Ok(KeywordsAfterDefault::End)
    }
}

/// The same names as they are, with a keyword in `to(..)`, `keep(..)` and `on(..)`, raw or not.
enum Signals {
    r#as,
    r#break,
    r#const,
    r#continue,
    r#else,
    r#enum,
    r#extern,
    r#false,
    r#fn,
    r#for,
    r#if,
    r#impl,
    r#in,
    r#let,
    r#loop,
    r#match,
    r#mod,
    r#move,
    r#mut,
    r#pub,
    r#ref,
    r#return,
    r#static,
    r#struct,
    r#trait,
    r#true,
    r#type,
    r#unsafe,
    r#use,
    r#where,
    r#while,
    r#async,
    r#await,
    r#dyn,
    r#abstract,
    r#become,
    r#box,
    r#do,
    r#final,
    r#macro,
    r#override,
    r#priv,
    r#typeof,
    r#unsized,
    r#virtual,
    r#yield,
    r#try,
    r#gen,
    macro_rules,
    raw,
    safe,
    union,
    auto,
    default,
}

struct Raw<r#type>(r#type);

#[fom(
    operation("Raw<r#type>"),
    event(Signals),
    generics("r#type: Send + 'static"),
    transient
)]
enum r#dyn {
    #[phase(start, to(r#break), on(r#as), within = "1s", keep(r#break))]
    r#as,
    #[phase(to(const), on(break), within = "1s", keep(const))]
    r#break,
    #[phase(to(r#continue), on(r#const), within = "1s", keep(r#continue))]
    r#const,
    #[phase(to(else), on(continue), within = "1s", keep(else))]
    r#continue,
    #[phase(to(r#enum), on(r#else), within = "1s", keep(r#enum))]
    r#else,
    #[phase(to(extern), on(enum), within = "1s", keep(extern))]
    r#enum,
    #[phase(to(r#false), on(r#extern), within = "1s", keep(r#false))]
    r#extern,
    #[phase(to(fn), on(false), within = "1s", keep(fn))]
    r#false,
    #[phase(to(r#for), on(r#fn), within = "1s", keep(r#for))]
    r#fn,
    #[phase(to(if), on(for), within = "1s", keep(if))]
    r#for,
    #[phase(to(r#impl), on(r#if), within = "1s", keep(r#impl))]
    r#if,
    #[phase(to(in), on(impl), within = "1s", keep(in))]
    r#impl,
    #[phase(to(r#let), on(r#in), within = "1s", keep(r#let))]
    r#in,
    #[phase(to(loop), on(let), within = "1s", keep(loop))]
    r#let,
    #[phase(to(r#match), on(r#loop), within = "1s", keep(r#match))]
    r#loop,
    #[phase(to(mod), on(match), within = "1s", keep(mod))]
    r#match,
    #[phase(to(r#move), on(r#mod), within = "1s", keep(r#move))]
    r#mod,
    #[phase(to(mut), on(move), within = "1s", keep(mut))]
    r#move,
    #[phase(to(r#pub), on(r#mut), within = "1s", keep(r#pub))]
    r#mut,
    #[phase(to(ref), on(pub), within = "1s", keep(ref))]
    r#pub,
    #[phase(to(r#return), on(r#ref), within = "1s", keep(r#return))]
    r#ref,
    #[phase(to(static), on(return), within = "1s", keep(static))]
    r#return,
    #[phase(to(r#struct), on(r#static), within = "1s", keep(r#struct))]
    r#static,
    #[phase(to(trait), on(struct), within = "1s", keep(trait))]
    r#struct,
    #[phase(to(r#true), on(r#trait), within = "1s", keep(r#true))]
    r#trait,
    #[phase(to(type), on(true), within = "1s", keep(type))]
    r#true,
    #[phase(to(r#unsafe), on(r#type), within = "1s", keep(r#unsafe))]
    r#type,
    #[phase(to(use), on(unsafe), within = "1s", keep(use))]
    r#unsafe,
    #[phase(to(r#where), on(r#use), within = "1s", keep(r#where))]
    r#use,
    #[phase(to(while), on(where), within = "1s", keep(while))]
    r#where,
    #[phase(to(r#async), on(r#while), within = "1s", keep(r#async))]
    r#while,
    #[phase(to(await), on(async), within = "1s", keep(await))]
    r#async,
    #[phase(to(r#dyn), on(r#await), within = "1s", keep(r#dyn))]
    r#await,
    #[phase(to(abstract), on(dyn), within = "1s", keep(abstract))]
    r#dyn,
    #[phase(to(r#become), on(r#abstract), within = "1s", keep(r#become))]
    r#abstract,
    #[phase(to(box), on(become), within = "1s", keep(box))]
    r#become,
    #[phase(to(r#do), on(r#box), within = "1s", keep(r#do))]
    r#box,
    #[phase(to(final), on(do), within = "1s", keep(final))]
    r#do,
    #[phase(to(r#macro), on(r#final), within = "1s", keep(r#macro))]
    r#final,
    #[phase(to(override), on(macro), within = "1s", keep(override))]
    r#macro,
    #[phase(to(r#priv), on(r#override), within = "1s", keep(r#priv))]
    r#override,
    #[phase(to(typeof), on(priv), within = "1s", keep(typeof))]
    r#priv,
    #[phase(to(r#unsized), on(r#typeof), within = "1s", keep(r#unsized))]
    r#typeof,
    #[phase(to(virtual), on(unsized), within = "1s", keep(virtual))]
    r#unsized,
    #[phase(to(r#yield), on(r#virtual), within = "1s", keep(r#yield))]
    r#virtual,
    #[phase(to(try), on(yield), within = "1s", keep(try))]
    r#yield,
    #[phase(to(r#gen), on(r#try), within = "1s", keep(r#gen))]
    r#try,
    #[phase(to(macro_rules), on(gen), within = "1s", keep(macro_rules))]
    r#gen,
    #[phase(to(raw), on(macro_rules), within = "1s", keep(raw))]
    macro_rules,
    #[phase(to(safe), on(raw), within = "1s", keep(safe))]
    raw,
    #[phase(to(union), on(safe), within = "1s", keep(union))]
    safe,
    #[phase(to(auto), on(union), within = "1s", keep(auto))]
    union,
    #[phase(to(default), on(auto), within = "1s", keep(default))]
    auto,
    #[phase(to(end), on(default))]
    default,
    #[phase(end)]
    end,
}

impl<r#type: Send + 'static> dynTransitions for Raw<r#type> {
    async fn r#as(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#break(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#const(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#continue(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#else(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#enum(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#extern(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#false(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#fn(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#for(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#if(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#impl(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#in(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#let(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#loop(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#match(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#mod(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#move(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#mut(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#pub(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#ref(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#return(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#static(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#struct(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#trait(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#true(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#type(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#unsafe(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#use(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#where(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#while(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#async(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#await(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#dyn(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#abstract(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#become(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#box(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#do(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#final(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#macro(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#override(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#priv(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#typeof(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#unsized(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#virtual(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#yield(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#try(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn r#gen(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn macro_rules(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn raw(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn safe(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn union(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn auto(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
    async fn default(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
        let _ = &self.0;
        Ok(())
    }
}

/// A layer of that name, around an operation in a field of that name.
struct r#await {
    r#gen: Inner,
}

struct Inner;

#[fom(operation(Inner), transient)]
enum r#mod {
    #[phase(start, sync, to(End))]
    Begin,
    #[phase(end)]
    End,
}

impl modTransitions for Inner {
    fn begin(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

#[fom(operation(r#await), around(Inner), transient)]
enum r#try {
    #[phase(start, sync, to(Use))]
    Try,
    #[phase(inner(gen))]
    Use { r#do: <Inner as Operation>::Phase },
}

impl tryTransitions for r#await {
    fn r#try(&mut self, _: &mut Cx<'_, <Inner as Operation>::Event>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// An active object of that name.
struct r#abstract {
    count: u8,
}

#[active]
impl r#abstract {
    #[when(self.count < r#yield)]
    pub fn r#gen(&mut self, r#yield: u8) -> u8 {
        self.count += r#yield;
        self.count
    }
}

fn main() {
    assert_eq!(<r#gen as Operation>::GRAPH.phases().len(), 55);
    assert_eq!(Raw::<u8>::GRAPH.phases()[0].name(), "as");
    assert_eq!(r#await::GRAPH.phases()[0].name(), "Try");
    let _: fn(abstractProxy) = drop;
    let _ = (r#abstract { count: 1 }, Raw(1u8), r#await { r#gen: Inner });
}
