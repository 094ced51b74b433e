package rest

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzScan compares what a scanner finds in any object of JSON with what encoding/json does.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : [ ] , "b":null,"c" : {"d":[1,-2.5e3,"\u00fc\"}"]}, "a":true }`, `{"shape":[1, 2 ,3],"x":"{[","\n":false}`, `[]`, `null`, `"a"`, ` 5 `,
		"{\"\xff\":\"\xff\"}", `{"a":{"a":{"a":[[[{}]]]}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var all any
		if json.Unmarshal([]byte(text), &all) != nil { // a number may be too large, too
			t.Skip()
		}
		found := map[string]any{}
		s := &scanner{text: []byte(text)}
		err := s.object("it", func(name string) error {
			raw := s.raw()
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Errorf("%q, of %q: %v", raw, text, err)
			}
			found[name] = v
			return nil
		})
		want, ok := all.(map[string]any)
		if all != nil && !ok {
			if err == nil {
				t.Errorf("%q is taken for an object", text)
			}
			return
		}
		if err != nil || len(want)+len(found) > 0 && !reflect.DeepEqual(found, want) {
			t.Errorf("%q: %v, %v; encoding/json has %v", text, found, err, want)
		}
		if s.next() != 0 {
			t.Errorf("%q: %q is left", text, text[s.at:])
		}
	})
}
