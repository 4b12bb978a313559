//! The files of the page. Each is served at its path.

/// A file of the page.
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) kind: &'static str,
    pub(super) bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// The asset with this name, at `/NAME`.
macro_rules! asset {
    ($name:literal, $kind:expr) => {
        Asset {
            path: concat!("/", $name),
            kind: $kind,
            bytes: include_bytes!(concat!("../../assets/", $name)),
        }
    };
}

/// The files, the page itself first.
pub(super) const ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        kind: HTML,
        bytes: include_bytes!("../../assets/index.html"),
    },
    asset!("style.css", STYLE),
    asset!("icon.svg", PICTURE),
    asset!("app.js", SCRIPT),
    asset!("actions.js", SCRIPT),
    asset!("cards.js", SCRIPT),
    asset!("charts.js", SCRIPT),
    asset!("diagram.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("fom.js", SCRIPT),
    asset!("foms.js", SCRIPT),
    asset!("format.js", SCRIPT),
    asset!("lists.js", SCRIPT),
    asset!("live.js", SCRIPT),
    asset!("machine.js", SCRIPT),
    asset!("overview.js", SCRIPT),
    asset!("parts.js", SCRIPT),
    asset!("requests.js", SCRIPT),
    asset!("routes.js", SCRIPT),
    asset!("waits.js", SCRIPT),
];

/// Returns the file at a path. Each view of the page has a path below `/view/`.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    let path = if path.starts_with("/view/") {
        "/"
    } else {
        path
    };
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts and styles that the page names, as `"/app.js"` or `"./dom.js"`.
    fn named(text: &str) -> impl Iterator<Item = &str> {
        let quoted = text.split('"').skip(1).step_by(2);
        quoted.filter_map(|part| {
            let name = part.strip_prefix("./").or(part.strip_prefix('/'))?;
            let known = [".js", ".css", ".svg"];
            known.iter().any(|end| name.ends_with(end)).then_some(name)
        })
    }

    #[test]
    fn the_page_is_smaller_than_150_kilobytes() {
        let sum: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(sum < 150_000, "the files of the page have {sum} bytes");
    }

    #[test]
    fn each_file_that_the_page_names_is_served() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for line in text.lines() {
                if line.contains("from \"") || line.starts_with('<') {
                    for name in named(line) {
                        assert!(
                            find(&format!("/{name}")).is_some(),
                            "{name} of {}",
                            asset.path
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_page_names_no_other_host() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !text.contains("http://") && !text.contains("https://"),
                "{}",
                asset.path
            );
        }
    }
}
