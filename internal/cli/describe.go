package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph/tensor"
)

// describe returns type and statistics of a value.
func describe(v tensor.Value) (typ, stats string) {
	switch v := v.(type) {
	case *tensor.Tensor:
		typ = v.DType.Name() + dimList(v.Shape)
		s, err := measure(v)
		if err != nil {
			return typ, fmt.Sprintf("%d elements", v.Len())
		}
		return typ, s.String()
	case *tensor.Sequence:
		return fmt.Sprintf("sequence[%d]", len(v.Items)), counted(len(v.Items), "item")
	case *tensor.Optional:
		if v.Item == nil {
			return "optional", "without a value"
		}
		typ, stats := describe(v.Item)
		return "optional " + typ, stats
	case *tensor.Map:
		return fmt.Sprintf("map[%d]", v.Len()), entries(v)
	}
	return "nothing", ""
}

// How much of a value is printed.
const (
	maxItems   = 10 // of a sequence
	maxEntries = 8  // of a map
	maxDepth   = 3  // of sequences in sequences
)

// entries returns the first entries of a map, `"cat": 0.25, "dog": 0.75`; numbers where its values are single ones.
func entries(m *tensor.Map) string {
	if m.Len() == 0 {
		return "empty"
	}
	values, err := m.Items()
	if err != nil {
		return counted(m.Len(), "key")
	}
	var out []string
	for i := range min(m.Len(), maxEntries) {
		var key string
		if len(m.IntKeys) > 0 {
			key = strconv.FormatInt(m.IntKeys[i], 10)
		} else {
			key = fmt.Sprintf("%.40q", m.StringKeys[i])
		}
		out = append(out, key+": "+short(values[i]))
	}
	if more := m.Len() - maxEntries; more > 0 {
		out = append(out, fmt.Sprintf("… %d more", more))
	}
	return strings.Join(out, ", ")
}

// short returns a value in a word or two.
func short(v tensor.Value) string {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.Len() != 1 || t.DType.IsComplex() {
		typ, _ := describe(v)
		return typ
	}
	switch {
	case t.DType == tensor.String:
		return fmt.Sprintf("%.40q", t.Strings[0])
	case t.DType.IsFloat():
		return fmt.Sprintf("%.6g", t.Float64At(0))
	case t.DType == tensor.Uint64:
		return strconv.FormatUint(uint64(t.Int64At(0)), 10)
	}
	return strconv.FormatInt(t.Int64At(0), 10)
}

// itemRows writes a row for each of the first items of a sequence, or of one that an optional holds: "name[0]", type, statistics.
func itemRows(w io.Writer, name string, v tensor.Value, depth int) {
	if o, ok := v.(*tensor.Optional); ok {
		v = o.Item
	}
	s, ok := v.(*tensor.Sequence)
	if !ok || depth == maxDepth {
		return
	}
	indent := strings.Repeat("  ", depth+1)
	for i, item := range s.Items[:min(len(s.Items), maxItems)] {
		typ, stats := describe(item)
		inner := fmt.Sprintf("%s[%d]", name, i)
		row(w, indent+inner, typ, stats)
		itemRows(w, inner, item, depth+1)
	}
	if more := len(s.Items) - maxItems; more > 0 {
		row(w, indent+"…", counted(more, "more item"))
	}
}
