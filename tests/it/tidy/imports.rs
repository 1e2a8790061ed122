//! The import rules between modules (house style §2), checked on the syntax trees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};

use super::texts::{repository, rust_files};

/// The names that a module must not use, in its own code or in that of its submodules. `crate::` is
/// the gateway; other names are other crates. Test modules inside a file are exempt.
const TABLE: &[(&str, &[&str])] = &[
    ("limits", &["tokio", "hyper", "http", "tonic", "tracing", "store", "crate::clock"]),
    ("ledger", &["hyper", "tonic", "proto", "domain::wire", "store::sqlite", "store::postgres"]),
    (
        "control",
        &[
            "hyper",
            "tonic",
            "proto",
            "store::sqlite",
            "store::postgres",
            "crate::pipeline",
            "crate::http",
            "crate::admin",
        ],
    ),
    (
        "fleet",
        &[
            "hyper",
            "tonic",
            "proto",
            "store::sqlite",
            "store::postgres",
            "crate::pipeline",
            "crate::http",
            "crate::admin",
        ],
    ),
    ("directory", &["crate"]),
    ("secrets", &["store", "crate::control", "crate::pipeline", "crate::upstream"]),
    ("pipeline", &["tonic", "proto", "store", "crate::control", "crate::http", "crate::admin"]),
    (
        "upstream",
        &[
            "store",
            "crate::limits",
            "crate::ledger",
            "translate",
            "crate::control",
            "crate::pipeline",
            "crate::http",
            "crate::admin",
        ],
    ),
    ("http", &["proto", "tonic", "store", "crate::admin"]),
    ("admin", &["hyper", "domain::wire", "crate::upstream", "crate::pipeline", "crate::http"]),
    (
        "metrics",
        &["tonic", "proto", "crate::control", "crate::pipeline", "crate::http", "crate::admin"],
    ),
    (
        "otlp",
        &["proto", "store", "crate::control", "crate::pipeline", "crate::http", "crate::admin"],
    ),
    ("telemetry", &["crate"]),
    ("coalescing_writer", &["crate"]),
    ("journal_barrier", &["crate"]),
];

/// Crates that only these files may name.
const ENCAPSULATED: &[(&str, &[&str])] = &[
    ("store::sqlite", &["app", "data_dir"]),
    ("store::postgres", &["app", "config"]),
    ("proto", &["admin", "demo"]),
    ("tonic", &["admin", "demo", "otlp"]),
    ("bpe_openai", &["pipeline/count"]),
    ("argon2", &["control/passwords"]),
    ("chacha20poly1305", &["secrets/seal"]),
    ("clap", &["config", "demo", "main"]),
];

/// Collects the paths in a file, as `crate::a::b` or `other_crate::a`.
struct Names {
    /// The module of the file: `["http", "handler"]`.
    module: Vec<String>,
    found: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, mut path: Vec<String>) {
        let mut base = self.module.clone();
        match path.first().map(String::as_str) {
            Some("self") => _ = path.remove(0),
            Some("super") => {
                while path.first().is_some_and(|part| part == "super") {
                    path.remove(0);
                    base.pop();
                }
            }
            _ => {
                self.found.insert(path.join("::"));
                return;
            }
        }
        let ours = std::iter::once("crate".to_owned()).chain(base).chain(path);
        self.found.insert(ours.collect::<Vec<_>>().join("::"));
    }

    fn tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add(with(&name.ident)),
            syn::UseTree::Rename(rename) => self.add(with(&rename.ident)),
            syn::UseTree::Glob(_) => self.add(prefix.to_vec()),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(prefix, tree));
            }
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.tree(&[], &item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

/// Returns the module of a file below `src`, as `http/handler`.
fn module_of(source: &Path, file: &Path) -> String {
    let inner = file.strip_prefix(source).unwrap().with_extension("");
    inner.to_str().unwrap().trim_end_matches("/mod").to_owned()
}

fn is_below(path: &str, root: &str, separator: &str) -> bool {
    path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with(separator))
}

/// Returns every module of the gateway except tests, with the names that it uses.
fn gateway() -> Vec<(String, BTreeSet<String>)> {
    let source = repository().join("gateway/src");
    let is_test_file = |module: &str| module.ends_with("tests") || module.contains("/tests/");
    let files = rust_files(&source).into_iter().map(|file| (module_of(&source, &file), file));
    let files = files.filter(|(module, _)| !is_test_file(module));
    files
        .map(|(module, file)| {
            let tree = syn::parse_file(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let path = module.split('/').map(str::to_owned).collect();
            let mut names = Names { module: path, found: BTreeSet::new() };
            names.visit_file(&tree);
            (module, names.found)
        })
        .collect()
}

#[test]
fn no_module_uses_a_name_that_the_table_forbids() {
    let gateway = gateway();
    assert!(gateway.len() > 80, "{} files", gateway.len());
    let mut faults = Vec::new();
    for (module, names) in &gateway {
        let rules = TABLE.iter().filter(|(root, _)| is_below(module, root, "/"));
        for banned in rules.flat_map(|(_, banned)| *banned) {
            let ours = format!("crate::{}", module.replace('/', "::"));
            let root = format!("crate::{}", module.split('/').next().unwrap());
            let hit = names.iter().find(|name| {
                is_below(name, banned, "::")
                    && !is_below(name, &ours, "::")
                    && !is_below(name, &root, "::")
            });
            faults.extend(hit.map(|name| format!("{module} names {name}")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Modules at the top level are layers: each can be understood with those below it only.
#[test]
fn no_modules_depend_on_each_other() {
    let root = |module: &str| module.split('/').next().unwrap().to_owned();
    let gateway = gateway();
    let mut dependencies = BTreeMap::<_, BTreeSet<String>>::new();
    for (module, names) in &gateway {
        let names = names.iter().filter_map(|name| name.strip_prefix("crate::"));
        let used = names.map(|name| name.split("::").next().unwrap().to_owned());
        dependencies
            .entry(root(module))
            .or_default()
            .extend(used.filter(|used| *used != root(module)));
    }
    assert!(dependencies["http"].contains("pipeline"), "dependencies are not found");
    // Takes away the modules that use none of the others, from the lowest layer to the highest.
    loop {
        let left: BTreeSet<_> = dependencies.keys().cloned().collect();
        dependencies.retain(|_, used| !used.is_disjoint(&left));
        if dependencies.len() == left.len() {
            break;
        }
    }
    assert!(dependencies.is_empty(), "in a cycle, or above one: {dependencies:#?}");
}

#[test]
fn encapsulated_crates_are_used_in_their_module_only() {
    for (module, names) in gateway() {
        for (krate, homes) in ENCAPSULATED {
            let named = names.iter().any(|name| is_below(name, krate, "::"));
            let at_home = homes.iter().any(|home| is_below(&module, home, "/"));
            assert!(!named || at_home, "{module} names {krate}");
        }
    }
}

/// Expects that no file below `dir` uses a name in `banned`.
fn check_crate(dir: &str, banned: &[&str]) {
    let source = repository().join(dir);
    for file in rust_files(&source) {
        let tree = syn::parse_file(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let mut names = Names { module: Vec::new(), found: BTreeSet::new() };
        names.visit_file(&tree);
        let hit = names.found.iter().find(|name| banned.iter().any(|it| is_below(name, it, "::")));
        assert!(hit.is_none(), "{} names {}", file.display(), hit.unwrap());
    }
}

#[test]
fn clients_depend_on_the_admin_contract_and_not_on_the_gateway() {
    check_crate("ctl/src", &["gateway", "tui", "tests"]);
    check_crate("tui/src", &["gateway", "tests"]);
    check_crate("proto/src", &["gateway", "ctl", "tui", "tests"]);
    for pure in ["model", "model.rs", "update", "update.rs", "view", "view.rs"] {
        check_crate(
            &format!("tui/src/{pure}"),
            &["tonic", "tokio", "crossterm::terminal", "crossterm::execute"],
        );
    }
}
