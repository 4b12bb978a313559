//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

/// Returns the patch that makes `after` of `before`. `None` if nothing changed. A member that is `null` and a member that is
/// absent are the same.
pub(super) fn patch(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut changes = Map::new();
    for (name, value) in new {
        let change = match old.get(name) {
            None => (!value.is_null()).then(|| value.clone()),
            Some(old) => patch(old, value),
        };
        if let Some(change) = change {
            changes.insert(name.clone(), change);
        }
    }
    for (name, value) in old {
        if !new.contains_key(name) && !value.is_null() {
            changes.insert(name.clone(), Value::Null);
        }
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Applies a patch, as RFC 7396 says.
    fn apply(to: &mut Value, patch: &Value) {
        let Value::Object(changes) = patch else {
            *to = patch.clone();
            return;
        };
        if !to.is_object() {
            *to = json!({});
        }
        for (name, change) in changes {
            let members = to.as_object_mut().unwrap();
            match change {
                Value::Null => drop(members.remove(name)),
                change => apply(members.entry(name).or_insert(Value::Null), change),
            }
        }
    }

    #[test]
    fn a_patch_has_what_changed_and_makes_the_new_document() {
        let old = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": {"f": 4}});
        let new = json!({"a": 1, "b": {"c": 5, "d": 3}, "g": {"h": 6}});
        let change = patch(&old, &new).unwrap();
        assert_eq!(change, json!({"b": {"c": 5}, "e": null, "g": {"h": 6}}));
        let mut patched = old;
        apply(&mut patched, &change);
        assert_eq!(patched, new);
        assert_eq!(patch(&new, &new), None);
    }

    #[test]
    fn null_is_absent() {
        assert_eq!(patch(&json!({"a": null}), &json!({})), None);
        assert_eq!(patch(&json!({}), &json!({"a": null})), None);
        assert_eq!(
            patch(&json!({"a": 1}), &json!({"a": null})),
            Some(json!({"a": null}))
        );
    }
}
