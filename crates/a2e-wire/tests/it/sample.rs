//! Values made from the catalogue's own words about types.

use serde_json::{Map, Value, json};

/// The catalogue, as a source of samples.
pub(crate) struct Samples {
    catalogue: Value,
}

/// Which fields a sample has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// Only those that must be there.
    Required,
    /// All, each with a value that is not its default.
    All,
}

impl Samples {
    pub(crate) fn load() -> Self {
        Self {
            catalogue: testkit::a2e_catalogue(),
        }
    }

    pub(crate) fn messages(&self) -> &[Value] {
        self.catalogue["messages"].as_array().unwrap()
    }

    pub(crate) fn structs(&self) -> &Map<String, Value> {
        self.catalogue["structs"].as_object().unwrap()
    }

    /// A whole message.
    pub(crate) fn message(&self, message: &Value, extent: Extent) -> Value {
        let mut object = self.object(message, extent);
        object.insert("type".into(), message["type"].clone());
        if extent == Extent::All {
            object.extend(envelope());
        }
        Value::Object(object)
    }

    /// The fields of a message or a struct.
    pub(crate) fn object(&self, owner: &Value, extent: Extent) -> Map<String, Value> {
        let fields = owner["fields"].as_array().unwrap();
        fields
            .iter()
            .filter(|field| extent == Extent::All || field["required"] == true)
            .map(|field| {
                let name = field["name"].as_str().unwrap();
                (name.into(), self.field(field, extent))
            })
            .collect()
    }

    pub(crate) fn field(&self, field: &Value, extent: Extent) -> Value {
        if field.get("range").is_some() {
            return json!(0.5);
        }
        if field["default"] == json!(true) {
            return json!(false);
        }
        self.value(field["type"].as_str().unwrap(), extent)
    }

    /// A value of a type of the catalogue.
    fn value(&self, wire_type: &str, extent: Extent) -> Value {
        if let Some((outer, inner)) = split(wire_type) {
            let inner = || self.value(inner, extent);
            return match outer {
                "list" => json!([inner(), inner()]),
                "map" => json!({"one": inner(), "zwei é": inner()}),
                "optional" => inner(),
                "tuple" => json!([3, 7]),
                other => panic!("unknown type {other}"),
            };
        }
        match wire_type {
            "string" => json!("text \"é\"\n\u{2028}"),
            "int" => json!(77),
            "float" => json!(0.25),
            "bool" => json!(true),
            "object" | "EnvState" => json!({"any": [1, null, {"x": "é"}]}),
            "any" => json!(["anything", 1.5, null]),
            // A type of parameters may contain itself.
            "ToolParameter" => json!({
                "name": "n", "type": "string", "description": "d", "required": true,
                "enum": ["a"], "properties": {"p": {
                    "name": "p", "type": "object", "description": "", "required": false,
                    "enum": null, "properties": null
                }}
            }),
            name if name.contains('/') => {
                let message = self.messages().iter().find(|m| m["type"] == name).unwrap();
                self.message(message, Extent::All)
            }
            name => Value::Object(self.object(&self.structs()[name], extent)),
        }
    }
}

pub(crate) fn envelope() -> Map<String, Value> {
    let envelope = json!({"a2e": "1.0", "version": "1.0", "id": "m1", "ts": 1.5, "eid": 3});
    envelope.as_object().unwrap().clone()
}

/// `list<string>` is `("list", "string")`.
pub(crate) fn split(wire_type: &str) -> Option<(&str, &str)> {
    wire_type.strip_suffix('>')?.split_once('<')
}
