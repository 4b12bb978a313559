//! Every keyword of every edition (strict, reserved or weak) names a phase, its function, its field, its event and
//! a target. Two macros write the machines from rows. `book/doctests.rs` compiles this file in edition 2021.
#![allow(non_camel_case_types, dead_code)]

use fom_patterns::prelude::*;
use fom_patterns::lock::LockSet;

struct r#gen {}

/// The functions and the fields of this machine have the names of its phases in snake case.
///
/// A row names the function and the field, the phase, the type that the function returns, the next phase and its
/// field. `with` adds the options of the phase that call a function each.
macro_rules! keywords {
    ($($name:ident $phase:ident $after:ident => $next:ident $($field:ident)?
        $(with $late:ident $late_fn:ident, $exhausted:ident $exhausted_fn:ident,
            $failed:ident $failed_fn:ident, $locks:ident $locks_fn:ident)?;)*) => {
        enum Event {
            As,
            $($phase,)*
        }

        #[fom(operation(r#gen), event(Event), transient)]
        enum Keywords {
            #[phase(start, to(Break), sync, on(As))]
            As,
            $(#[phase(
                to($next), sync, on($phase)
                $(, within = "1s", $late, retry = "2, 1ms..2ms", $exhausted, $failed(End), $locks)?
            )]
            $phase { $name: u8 },)*
            #[phase(end)]
            End,
        }

        impl KeywordsTransitions for r#gen {
            fn r#as(&mut self, _: &mut Cx<'_, Event>, _: Event) -> Result<KeywordsAfterAs, BoxError> {
                Ok(KeywordsAfterAs::Break { r#break: 1 })
            }
            $(
                fn $name(&mut self, _: &mut Cx<'_, Event>, $name: &mut u8, _: Event) -> Result<$after, BoxError> {
                    *$name += 1;
                    Ok($after::$next $({ $field: 1 })?)
                }
                $(
                    fn $late_fn(&mut self, _: &mut Cx<'_, Event>, _: &mut u8) -> Result<$after, BoxError> {
                        Err("only compiled".into())
                    }
                    fn $exhausted_fn(&mut self, _: &mut Cx<'_, Event>, _: &mut u8) -> Result<$after, BoxError> {
                        Err("only compiled".into())
                    }
                    fn $failed_fn(
                        &mut self,
                        _: &mut Cx<'_, Event>,
                        _: &mut u8,
                        _: Cause<BoxError>,
                    ) -> Result<(), BoxError> {
                        Ok(())
                    }
                    fn $locks_fn(&self, _: &Cx<'_, Event>, _: &u8) -> LockSet {
                        LockSet::new()
                    }
                )?
            )*
        }
    };
}

keywords! {
    r#break Break KeywordsAfterBreak => Const r#const;
    r#const Const KeywordsAfterConst => Continue r#continue;
    r#continue Continue KeywordsAfterContinue => Else r#else;
    r#else Else KeywordsAfterElse => Enum r#enum;
    r#enum Enum KeywordsAfterEnum => Extern r#extern;
    r#extern Extern KeywordsAfterExtern => False r#false;
    r#false False KeywordsAfterFalse => Fn r#fn;
    r#fn Fn KeywordsAfterFn => For r#for;
    r#for For KeywordsAfterFor => If r#if;
    r#if If KeywordsAfterIf => Impl r#impl;
    r#impl Impl KeywordsAfterImpl => In r#in;
    r#in In KeywordsAfterIn => Let r#let;
    r#let Let KeywordsAfterLet => Loop r#loop;
    r#loop Loop KeywordsAfterLoop => Match r#match;
    r#match Match KeywordsAfterMatch => Mod r#mod;
    r#mod Mod KeywordsAfterMod => Move r#move;
    r#move Move KeywordsAfterMove => Mut r#mut;
    r#mut Mut KeywordsAfterMut => Pub r#pub;
    r#pub Pub KeywordsAfterPub => Ref r#ref;
    r#ref Ref KeywordsAfterRef => Return r#return;
    r#return Return KeywordsAfterReturn => Static r#static;
    r#static Static KeywordsAfterStatic => Struct r#struct;
    r#struct Struct KeywordsAfterStruct => Trait r#trait;
    r#trait Trait KeywordsAfterTrait => True r#true;
    r#true True KeywordsAfterTrue => Type r#type;
    r#type Type KeywordsAfterType => Unsafe r#unsafe
        with late type_late, exhausted type_exhausted, failed type_failed, locks type_locks;
    r#unsafe Unsafe KeywordsAfterUnsafe => Use r#use;
    r#use Use KeywordsAfterUse => Where r#where;
    r#where Where KeywordsAfterWhere => While r#while;
    r#while While KeywordsAfterWhile => Async r#async;
    r#async Async KeywordsAfterAsync => Await r#await;
    r#await Await KeywordsAfterAwait => Dyn r#dyn;
    r#dyn Dyn KeywordsAfterDyn => Abstract r#abstract;
    r#abstract Abstract KeywordsAfterAbstract => Become r#become;
    r#become Become KeywordsAfterBecome => Box r#box;
    r#box Box KeywordsAfterBox => Do r#do;
    r#do Do KeywordsAfterDo => Final r#final;
    r#final Final KeywordsAfterFinal => Macro r#macro;
    r#macro Macro KeywordsAfterMacro => Override r#override;
    r#override Override KeywordsAfterOverride => Priv r#priv;
    r#priv Priv KeywordsAfterPriv => Typeof r#typeof;
    r#typeof Typeof KeywordsAfterTypeof => Unsized r#unsized;
    r#unsized Unsized KeywordsAfterUnsized => Virtual r#virtual;
    r#virtual Virtual KeywordsAfterVirtual => Yield r#yield;
    r#yield Yield KeywordsAfterYield => Try r#try;
    r#try Try KeywordsAfterTry => Gen r#gen;
    r#gen Gen KeywordsAfterGen => MacroRules macro_rules
        with late gen_late, exhausted gen_exhausted, failed gen_failed, locks gen_locks;
    macro_rules MacroRules KeywordsAfterMacroRules => Raw raw;
    raw Raw KeywordsAfterRaw => Safe safe;
    safe Safe KeywordsAfterSafe => Union union;
    union Union KeywordsAfterUnion => Auto auto
        with late union_late, exhausted union_exhausted, failed union_failed, locks union_locks;
    auto Auto KeywordsAfterAuto => Default default;
    default Default KeywordsAfterDefault => End;
}

/// The phases of this machine are the keywords themselves, which `on(..)`, `to(..)` and `keep(..)` name raw or plain.
///
/// A row names the phase and its event, that event in `on(..)`, and the next phase in `to(..)` and `keep(..)`.
macro_rules! signals {
    ($($phase:ident $($start:ident)?: on $on:ident => $to:ident;)*) => {
        enum Signals {
            $($phase,)*
            default,
        }

        #[fom(
            operation("Raw<r#type>"),
            event(Signals),
            generics("r#type: Send + 'static"),
            transient
        )]
        enum r#dyn {
            $(#[phase($($start,)? to($to), on($on), within = "1s", keep($to))]
            $phase,)*
            #[phase(to(end), on(default))]
            default,
            #[phase(end)]
            end,
        }

        impl<r#type: Send + 'static> dynTransitions for Raw<r#type> {
            $(async fn $phase(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
                let _ = &self.0;
                Ok(())
            })*
            async fn default(&mut self, _: &mut Cx<'_, Signals>) -> Result<(), BoxError> {
                let _ = &self.0;
                Ok(())
            }
        }
    };
}

struct Raw<r#type>(r#type);

signals! {
    r#as start: on r#as => r#break;
    r#break: on break => const;
    r#const: on r#const => r#continue;
    r#continue: on continue => else;
    r#else: on r#else => r#enum;
    r#enum: on enum => extern;
    r#extern: on r#extern => r#false;
    r#false: on false => fn;
    r#fn: on r#fn => r#for;
    r#for: on for => if;
    r#if: on r#if => r#impl;
    r#impl: on impl => in;
    r#in: on r#in => r#let;
    r#let: on let => loop;
    r#loop: on r#loop => r#match;
    r#match: on match => mod;
    r#mod: on r#mod => r#move;
    r#move: on move => mut;
    r#mut: on r#mut => r#pub;
    r#pub: on pub => ref;
    r#ref: on r#ref => r#return;
    r#return: on return => static;
    r#static: on r#static => r#struct;
    r#struct: on struct => trait;
    r#trait: on r#trait => r#true;
    r#true: on true => type;
    r#type: on r#type => r#unsafe;
    r#unsafe: on unsafe => use;
    r#use: on r#use => r#where;
    r#where: on where => while;
    r#while: on r#while => r#async;
    r#async: on async => await;
    r#await: on r#await => r#dyn;
    r#dyn: on dyn => abstract;
    r#abstract: on r#abstract => r#become;
    r#become: on become => box;
    r#box: on r#box => r#do;
    r#do: on do => final;
    r#final: on r#final => r#macro;
    r#macro: on macro => override;
    r#override: on r#override => r#priv;
    r#priv: on priv => typeof;
    r#typeof: on r#typeof => r#unsized;
    r#unsized: on unsized => virtual;
    r#virtual: on r#virtual => r#yield;
    r#yield: on yield => try;
    r#try: on r#try => r#gen;
    r#gen: on gen => macro_rules;
    macro_rules: on macro_rules => raw;
    raw: on raw => safe;
    safe: on safe => union;
    union: on union => auto;
    auto: on auto => default;
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
