//! The items beside the `impl`: the proxy, and the guards as functions.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{GenericParam, Generics, Visibility};

use super::{Object, guard, method::Method};
use crate::paths::respan;

pub(super) fn expand(object: &Object) -> TokenStream {
    let item = &object.item;
    let proxy = proxy(object);
    let methods = object.methods.iter().map(|method| call(object, method));
    let methods = on_proxy(object, methods.collect());
    let guards = object.methods.iter().filter_map(condition);
    let codecs = object.methods.iter().filter(|_| object.remote);
    let codecs = codecs.map(|method| codec(object, method));
    let guards: TokenStream = guards.chain(codecs).collect();
    let (generics, _, bounds) = item.generics.split_for_impl();
    let self_ty = &item.self_ty;
    let guards = (!guards.is_empty()).then(|| {
        quote! {
            #[automatically_derived]
            impl #generics #self_ty #bounds { #guards }
        }
    });
    let remote = object.remote.then(|| remote(object));
    quote!(#item #proxy #methods #guards #remote)
}

/// Returns the methods by their names, for calls from other processes.
fn remote(object: &Object) -> TokenStream {
    let (krate, proxy_type, self_ty) = (&object.krate, &object.proxy, &object.item.self_ty);
    let (params, names, bounds) = object.item.generics.split_for_impl();
    let [proxy, method_, arguments] = ["proxy", "method", "arguments"].map(local);
    let arms = object.methods.iter().map(|method| {
        let (name, text) = (&method.sig.ident, method.sig.ident.unraw().to_string());
        let cfg = cfgs(method);
        let codec = codec_name(method);
        let names: Vec<_> = method
            .arguments
            .iter()
            .map(|argument| &argument.name)
            .collect();
        let types = method.arguments.iter().map(|argument| &argument.ty);
        let types = own(object, quote!((#(#types,)*)));
        quote_spanned! {name.span()=>
            #(#cfg)*
            #text => <#self_ty>::#codec().answer(
                #arguments,
                |(#(#names,)*): #types| #proxy.#name(#(#names),*),
            ),
        }
    });
    quote! {
        #[automatically_derived]
        #[allow(deprecated, clippy::all, clippy::pedantic)]
        impl #params #krate::active::RemoteActive for #self_ty #bounds {
            fn call_by_name(
                #proxy: &#proxy_type #names,
                #method_: &str,
                #arguments: &[u8],
            ) -> ::core::result::Result<#krate::active::Answering, #krate::active::Refusal> {
                match #method_ {
                    #(#arms)*
                    _ => #krate::active::no_method::<Self>(#method_),
                }
            }
        }
    }
}

/// Returns the `cfg` attributes of a method.
fn cfgs(method: &Method) -> impl Iterator<Item = &syn::Attribute> {
    let attrs = method.attrs.iter();
    attrs.filter(|attr| attr.path().is_ident("cfg"))
}

/// After a mistake: the same names without behaviour, so that no further mistakes follow.
pub(super) fn skeleton(object: &Object) -> TokenStream {
    let item = &object.item;
    if item.generics.lifetimes().next().is_some() {
        // A proxy for a type that borrows cannot be named without further mistakes.
        return item.to_token_stream();
    }
    let proxy = proxy(object);
    let methods = object.methods.iter();
    let methods = methods.filter(|method| !method.has_nameless_answer());
    let methods = methods.map(|method| {
        let head = head(object, method);
        quote!(#[allow(unused_variables)] #head { ::core::unreachable!() })
    });
    let methods = on_proxy(object, methods.collect());
    quote!(#item #proxy #methods)
}

/// Returns the type of the proxy, and its traits.
fn proxy(object: &Object) -> TokenStream {
    let (krate, proxy, self_ty) = (&object.krate, &object.proxy, &object.item.self_ty);
    let (params, names, bounds) = object.item.generics.split_for_impl();
    let of = own(object, bounds.to_token_stream());
    let vis = visibility(object);
    let name = self_ty.to_token_stream().to_string().replace(' ', "");
    let doc = format!(
        "Calls an active [`{}`]. Each method queues a request. The object's answer is the outcome of the call.",
        object.name.unraw()
    );
    let inner = quote!(#krate::active::Proxy<#self_ty>);
    let active = quote_spanned!(object.name.span()=> #krate::active::Active);
    quote! {
        #[doc = #doc]
        #[allow(unreachable_pub)]
        #vis struct #proxy #params (#inner) #of;

        #[automatically_derived]
        impl #params #active for #self_ty #bounds {
            type Proxy = #proxy #names;
            const NAME: &'static str = #name;
        }

        #[automatically_derived]
        impl #params ::core::convert::From<#inner> for #proxy #names #of {
            fn from(proxy: #inner) -> Self {
                Self(proxy)
            }
        }

        #[automatically_derived]
        impl #params ::core::clone::Clone for #proxy #names #of {
            fn clone(&self) -> Self {
                Self(::core::clone::Clone::clone(&self.0))
            }
        }

        #[automatically_derived]
        impl #params ::core::fmt::Debug for #proxy #names #of {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.0, f)
            }
        }

        #[automatically_derived]
        impl #params ::core::ops::Deref for #proxy #names #of {
            type Target = #krate::active::ObjectRef;
            fn deref(&self) -> &#krate::active::ObjectRef {
                &self.0
            }
        }
    }
}

fn on_proxy(object: &Object, methods: TokenStream) -> TokenStream {
    let proxy = &object.proxy;
    let (params, names, bounds) = object.item.generics.split_for_impl();
    let of = own(object, bounds.to_token_stream());
    quote! {
        #[allow(deprecated, missing_docs, unreachable_pub, clippy::all, clippy::pedantic, clippy::restriction)]
        impl #params #proxy #names #of { #methods }
    }
}

/// Returns the visibility of the most visible method.
fn visibility(object: &Object) -> TokenStream {
    let rank = |vis: &&Visibility| match vis {
        Visibility::Public(_) => 2,
        _ => 1,
    };
    let widest = object
        .methods
        .iter()
        .map(|method| &method.vis)
        .max_by_key(rank);
    // The span is not the user's `pub`, so that lints about it are reported once.
    let span = Span::call_site().located_at(object.name.span());
    respan(widest.to_token_stream(), span)
}

/// Returns the proxy's method, up to its body.
fn head(object: &Object, method: &Method) -> TokenStream {
    let krate = &object.krate;
    let (attrs, vis, name) = (&method.attrs, &method.vis, &method.sig.ident);
    let mut generics = method.sig.generics.clone();
    for param in &mut generics.params {
        if let GenericParam::Type(param) = param {
            param.bounds.push(syn::parse_quote!(::core::marker::Send));
            param.bounds.push(syn::parse_quote!('static));
        }
    }
    let (params, _, bounds) = generics.split_for_impl();
    let arguments = method.arguments.iter().map(|argument| {
        let (name, ty) = (&argument.name, &argument.ty);
        quote!(#name: #ty)
    });
    let answer = method.answer();
    let rest = own(
        object,
        quote!((&self, #(#arguments),*) -> #krate::active::Call<#answer> #bounds),
    );
    quote!(#(#attrs)* #vis fn #name #params #rest)
}

fn call(object: &Object, method: &Method) -> TokenStream {
    let (krate, self_ty) = (&object.krate, &object.item.self_ty);
    let head = head(object, method);
    let (name, priority) = (&method.sig.ident, &method.priority);
    let text = name.unraw().to_string();
    let names: Vec<_> = method
        .arguments
        .iter()
        .map(|argument| &argument.name)
        .collect();
    let types = method.arguments.iter().map(|argument| &argument.ty);
    let types = own(object, quote!((#(#types,)*)));
    let [object_, args, method_] = ["object", "args", "method"].map(local);
    let remote = object.remote.then(|| {
        let codec = codec_name(method);
        quote!(.remote(<#self_ty>::#codec()))
    });
    let when = method.when.is_some().then(|| {
        let guard = guard_name(method);
        let turbofish = turbofish(&method.sig.generics);
        quote! {
            let #method_ = #method_.when(|#object_: &#self_ty, #args: &#types| {
                let (#(#names,)*) = #args;
                #object_.#guard #turbofish (#(#names),*)
            });
        }
    });
    // By its path: a method of the same name in a user's trait is another method.
    let call = quote!(<#self_ty>::#name(#object_ #(, #names)*));
    let (function, body) = if method.sig.asyncness.is_some() {
        ("call_async", quote!(::std::boxed::Box::pin(#call)))
    } else {
        ("call", call)
    };
    // At the method's name and its first type: rustc reports there what cannot be sent.
    let function = Ident::new(function, name.span());
    let first = method.arguments.first();
    let span = first.map_or(name.span(), |argument| argument.ty.span());
    let request = quote_spanned!(span=> (#(#names,)*));
    quote! {
        #head {
            let #method_ = #krate::active::Method::new(#text, #krate::active::Priority::#priority) #remote;
            #when
            self.0.#function(#method_, #request, |#object_, (#(#names,)*): #types| #body)
        }
    }
}

/// Returns the guard as a function. Its arguments are references to those in the list.
fn condition(method: &Method) -> Option<TokenStream> {
    let condition = guard::condition(method.when.as_ref()?, &method.arguments);
    let name = guard_name(method);
    let cfg = cfgs(method);
    let (params, _, bounds) = method.sig.generics.split_for_impl();
    let arguments = method.arguments.iter().map(|argument| {
        let (name, ty) = (&argument.name, &argument.ty);
        quote!(#name: &#ty)
    });
    Some(quote! {
        #(#cfg)*
        #[allow(deprecated, unused_variables, clippy::all, clippy::pedantic)]
        fn #name #params (&self #(, #arguments)*) -> bool #bounds {
            #condition
        }
    })
}

/// Returns the form of a method for other processes, as a function. It is there once, so that rustc reports once what cannot be
/// sent.
fn codec(object: &Object, method: &Method) -> TokenStream {
    let krate = &object.krate;
    let (cfg, name) = (cfgs(method), codec_name(method));
    let answer = method.answer();
    let types = method.arguments.iter().map(|argument| &argument.ty);
    let types = own(object, quote!((#(#types,)*), #answer));
    // At the first type, or at the name of a method without arguments.
    let first = method.arguments.first();
    let span = first.map_or(method.sig.ident.span(), |argument| argument.ty.span());
    let new = respan(quote!(#krate::active::Remote::new()), span);
    quote! {
        #(#cfg)*
        #[allow(deprecated, clippy::all, clippy::pedantic)]
        fn #name() -> #krate::active::Remote<#types> {
            #new
        }
    }
}

fn codec_name(method: &Method) -> Ident {
    format_ident!("__remote_{}", method.sig.ident.unraw())
}

fn guard_name(method: &Method) -> Ident {
    format_ident!("__when_{}", method.sig.ident.unraw())
}

/// Returns `::<T, N>` for a method with parameters of its own.
fn turbofish(generics: &Generics) -> TokenStream {
    let (_, names, _) = generics.split_for_impl();
    names.as_turbofish().to_token_stream()
}

/// Returns a name inside a generated body. It never meets a name of the user's.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// Replaces `Self` with the object's type, because `Self` beside the `impl` is another type.
fn own(object: &Object, tokens: TokenStream) -> TokenStream {
    let self_ty = &object.item.self_ty;
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(name) if name == "Self" => quote!(#self_ty),
            TokenTree::Group(group) => {
                let mut new = Group::new(group.delimiter(), own(object, group.stream()));
                new.set_span(group.span());
                TokenTree::from(new).into()
            }
            other => other.into(),
        })
        .collect()
}
