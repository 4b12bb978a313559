//! Reads the source of a package: which file imports from which, through all re-exports.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
};

use syn::{ImplItem, Item, ItemImpl, ItemMod, Type, UseTree, visit::Visit};

/// A module's path from the root of its package.
type Names = Vec<String>;

/// The modules of a package.
#[derive(Default)]
pub(crate) struct Source {
    modules: HashMap<Names, Module>,
}

#[derive(Default)]
struct Module {
    /// The file, relative to `src`.
    file: String,
    /// The names that the module defines.
    defined: BTreeSet<String>,
    /// The names that the module imports, each with its whole path.
    imported: HashMap<String, Names>,
    /// The modules of which it imports all names.
    globs: Vec<Names>,
    /// The paths that its code uses, from the root of the package.
    used: BTreeSet<Names>,
    /// The types that get methods here, each with their number.
    extended: BTreeMap<Names, usize>,
    /// The structs with named fields, each with their number.
    fields: BTreeMap<String, usize>,
}

/// An import of a file, or methods that it adds.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) name: String,
}

impl Source {
    /// Reads all files below `src`.
    pub(crate) fn read(src: &Path) -> Self {
        let mut source = Self::default();
        source.read_file(src, Path::new("lib.rs"), Vec::new());
        assert!(source.modules.len() > 1, "{} has no modules", src.display());
        // The first name of a path can only be resolved when all modules are known.
        source
    }

    fn read_file(&mut self, src: &Path, file: &Path, names: Names) {
        let text = fs::read_to_string(src.join(file)).unwrap();
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.read_items(src, file, names, &parsed.items);
    }

    fn read_items(&mut self, src: &Path, file: &Path, names: Names, items: &[Item]) {
        let mut module = Module {
            file: file.to_str().unwrap().to_owned(),
            ..Module::default()
        };
        for item in items {
            let Some(name) = name_of(item) else { continue };
            module.defined.insert(name);
        }
        let mut reader = Reader {
            at: names.clone(),
            module,
            inner: Vec::new(),
        };
        items.iter().for_each(|item| reader.visit_item(item));
        let Reader { module, inner, .. } = reader;
        self.modules.insert(names.clone(), module);
        for inner in inner {
            let mut names = names.clone();
            let name = inner.ident.to_string();
            names.push(name.clone());
            match &inner.content {
                Some((_, items)) => self.read_items(src, file, names, items),
                None => {
                    let file = find(src, file, &inner, &name);
                    self.read_file(src, &file, names);
                }
            }
        }
    }

    /// Returns the imports from one file to another.
    pub(crate) fn imports(&self) -> BTreeSet<Edge> {
        self.edges(|module| {
            module
                .used
                .iter()
                .chain(module.imported.values())
                .chain(&module.globs)
        })
    }

    /// Returns the methods that a file adds to a type of another file.
    pub(crate) fn additions(&self) -> BTreeSet<Edge> {
        self.edges(|module| module.extended.keys())
    }

    /// Returns the number of named fields of each struct, with the file of the struct.
    pub(crate) fn fields(&self) -> BTreeMap<(String, String), usize> {
        let modules = self.modules.values();
        let counted = modules.flat_map(|module| {
            let fields = module.fields.iter();
            fields.map(|(name, count)| ((module.file.clone(), name.clone()), *count))
        });
        counted.collect()
    }

    /// Returns the number of methods of each type in all files together, with the file of the type. The methods of
    /// traits do not count.
    pub(crate) fn methods(&self) -> BTreeMap<(String, String), usize> {
        let mut methods = BTreeMap::new();
        for (path, count) in self.modules.values().flat_map(|module| &module.extended) {
            if let Some(file) = self.defines(path, 0) {
                let name = path.last().cloned().unwrap_or_default();
                *methods.entry((file.to_owned(), name)).or_default() += count;
            }
        }
        methods
    }

    fn edges<'s, I: Iterator<Item = &'s Names>>(
        &'s self,
        paths: impl Fn(&'s Module) -> I,
    ) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        for module in self.modules.values() {
            for path in paths(module) {
                if let Some(to) = self.defines(path, 0)
                    && to != module.file
                {
                    let name = path.last().cloned().unwrap_or_default();
                    edges.insert(Edge {
                        from: module.file.clone(),
                        to: to.to_owned(),
                        name,
                    });
                }
            }
        }
        edges
    }

    /// Returns the file that defines the path. `None` if the path is not of this package, or a macro defines it.
    fn defines(&self, path: &[String], depth: usize) -> Option<&str> {
        let mut at = Names::new();
        for (index, name) in path.iter().enumerate() {
            let module = self.modules.get(&at)?;
            let mut inner = at.clone();
            inner.push(name.clone());
            if self.modules.contains_key(&inner) {
                at = inner;
                continue;
            }
            if module.defined.contains(name) {
                return Some(&module.file);
            }
            if depth > 16 {
                return None;
            }
            let rest = &path[index + 1..];
            if let Some(imported) = module.imported.get(name) {
                return self.defines(&[imported, rest].concat(), depth + 1);
            }
            let from_globs =
                |glob: &Names| self.defines(&[glob, &path[index..]].concat(), depth + 1);
            return module.globs.iter().find_map(from_globs);
        }
        self.modules.get(&at).map(|module| module.file.as_str())
    }
}

/// Returns the file of a module without a body.
fn find(src: &Path, file: &Path, module: &ItemMod, name: &str) -> std::path::PathBuf {
    let directory = match file.file_stem().unwrap().to_str().unwrap() {
        "lib" | "mod" => file.parent().unwrap().to_owned(),
        _ => file.with_extension(""),
    };
    let named = module
        .attrs
        .iter()
        .find(|attribute| attribute.path().is_ident("path"));
    if let Some(attribute) = named
        && let syn::Meta::NameValue(pair) = &attribute.meta
        && let syn::Expr::Lit(literal) = &pair.value
        && let syn::Lit::Str(path) = &literal.lit
    {
        return file.parent().unwrap().join(path.value());
    }
    let beside = directory.join(format!("{name}.rs"));
    match src.join(&beside).exists() {
        true => beside,
        false => directory.join(name).join("mod.rs"),
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns whether a module is only part of the tests.
fn is_test(module: &ItemMod) -> bool {
    let is_test = |attribute: &syn::Attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        let condition = list.tokens.to_string().replace(' ', "");
        list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
    };
    module.attrs.iter().any(is_test)
}

/// Collects the names that a module's code uses.
struct Reader {
    at: Names,
    module: Module,
    inner: Vec<ItemMod>,
}

impl Reader {
    /// Returns the path from the root of the package for a path in this module.
    fn absolute(&self, path: &[String]) -> Option<Names> {
        let mut at = self.at.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
                return Some([at.as_slice(), rest].concat());
            }
            // A name of this module, or of another package. In the second case no module of this package has the name.
            _ => return Some([at.as_slice(), path].concat()),
        }
        rest = &rest[1..];
        Some([at.as_slice(), rest].concat())
    }

    fn read_use(&mut self, tree: &UseTree, mut before: Names) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.read_use(&path.tree, before);
            }
            UseTree::Name(name) => self.import(before, name.ident.to_string(), None),
            UseTree::Rename(rename) => {
                self.import(
                    before,
                    rename.ident.to_string(),
                    Some(rename.rename.to_string()),
                );
            }
            UseTree::Glob(_) => self.module.globs.extend(self.absolute(&before)),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.read_use(tree, before.clone());
                }
            }
        }
    }

    fn import(&mut self, mut path: Names, name: String, renamed: Option<String>) {
        if name != "self" {
            path.push(name);
        }
        let Some(last) = path.last().cloned() else {
            return;
        };
        if let Some(absolute) = self.absolute(&path) {
            let known_as = renamed.unwrap_or(last);
            // `use a;` of another package must not lead to itself.
            if absolute != [self.at.as_slice(), std::slice::from_ref(&known_as)].concat() {
                let known_as = if known_as == "_" {
                    format!("_{}", self.module.imported.len())
                } else {
                    known_as
                };
                self.module.imported.insert(known_as, absolute);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(module) {
            self.inner.push(module.clone());
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.read_use(&item.tree, Names::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if names.len() > 1
            && path.leading_colon.is_none()
            && let Some(absolute) = self.absolute(&names)
        {
            self.module.used.insert(absolute);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if item.trait_.is_none()
            && let Type::Path(of) = &*item.self_ty
        {
            let names: Names = of
                .path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect();
            if let Some(absolute) = self.absolute(&names) {
                let is_method = |item: &&ImplItem| matches!(item, ImplItem::Fn(_));
                let count = item.items.iter().filter(is_method).count();
                *self.module.extended.entry(absolute).or_default() += count;
            }
        }
        syn::visit::visit_item_impl(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if let syn::Fields::Named(fields) = &item.fields {
            let name = item.ident.to_string();
            self.module.fields.insert(name, fields.named.len());
        }
        syn::visit::visit_item_struct(self, item);
    }
}
