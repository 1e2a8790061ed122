//! The files of the dashboard in the configuration directory: the settings file and themes.

use serde_json::Value;

use std::fmt::{self, Display, Formatter};
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::theme::catalogue::{NamedTheme, parse};

/// The settings file, within the configuration directory.
const KEPT: &str = "tui.json";
/// The directory of theme files, within the configuration directory.
const THEMES: &str = "themes";

/// Reads what was kept at the end of the last session; nothing if there is no such file.
///
/// # Errors
/// Returns an error if the file cannot be read or is no JSON.
pub fn read_kept(directory: &Path) -> Result<Value> {
    match fs::read(directory.join(KEPT)) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(error),
    }
}

/// Replaces the settings file. Only its owner can read it.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write_kept(directory: &Path, kept: &Value) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(format!("{kept:#}\n").as_bytes())?;
    file.persist(directory.join(KEPT)).map_err(|error| error.error)?;
    Ok(())
}

/// A theme file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenTheme {
    /// The name of the theme.
    pub name: String,
    /// What is wrong with the file.
    pub problem: String,
}

/// Reads the theme files, in the order of their names. The second value is those that are wrong.
pub fn read_themes(directory: &Path) -> (Vec<NamedTheme>, Vec<BrokenTheme>) {
    let Ok(entries) = fs::read_dir(directory.join(THEMES)) else {
        return (Vec::new(), Vec::new());
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "toml"));
    paths.sort();
    let (mut themes, mut broken) = (Vec::new(), Vec::new());
    for path in paths {
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        let text = fs::read_to_string(&path).map_err(|error| error.to_string());
        match text.and_then(|text| parse(&text)) {
            Ok(theme) => themes.push(NamedTheme { name: name.to_owned(), theme }),
            Err(problem) => broken.push(BrokenTheme { name: name.to_owned(), problem }),
        }
    }
    (themes, broken)
}

// === impl BrokenTheme ===

impl Display for BrokenTheme {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "theme `{}`: {}", self.name, self.problem)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_kept_is_private_and_comes_back() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("tollgate");
        assert_eq!(read_kept(&directory).unwrap(), Value::Null);
        write_kept(&directory, &json!({"theme": "nord"})).unwrap();
        assert_eq!(read_kept(&directory).unwrap(), json!({"theme": "nord"}));
        let mode = fs::metadata(directory.join(KEPT)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(directory.join(KEPT), "{").unwrap();
        assert!(read_kept(&directory).is_err());
    }

    #[test]
    fn valid_theme_files_are_read_and_others_reported() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read_themes(home.path()), (Vec::new(), Vec::new()));
        let themes = home.path().join(THEMES);
        fs::create_dir(&themes).unwrap();
        fs::write(themes.join("mine.toml"), "accent = \"#123456\"").unwrap();
        fs::write(themes.join("broken.toml"), "accent = 3").unwrap();
        fs::write(themes.join("notes.txt"), "accent").unwrap();
        let (found, broken) = read_themes(home.path());
        assert_eq!(found.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["mine"]);
        assert!(broken.len() == 1 && broken[0].problem.contains("`accent`"), "{broken:?}");
        assert_eq!(broken[0].to_string().split_once(": ").unwrap().0, "theme `broken`");
    }
}
