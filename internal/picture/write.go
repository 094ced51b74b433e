package picture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/carve-dev/carve/internal/units"
)

// WriteJSON writes the Document, indented.
func (d *Document) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}

// palette are colours that people with any colour vision tell apart (Okabe and Ito, 2008), for backends in the order of the list.
// The page has them in its style; the last are for what runs on none.
var palette = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"}

// WriteDOT writes the graph in Graphviz' language: groups and regions are clusters, backends have colours.
func (d *Document) WriteDOT(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "digraph %s {\n", quote(d.Model))
	fmt.Fprintln(out, `  compound=true; rankdir=TB; node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10, fillcolor=white]; edge [fontname="sans-serif", fontsize=9];`)
	if len(d.Scopes) > 0 {
		d.dotScope(out, 0, "  ")
	}
	fmt.Fprintln(out, "}")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}

// dotScope writes the nodes of a scope. Edges to and from a group end at a node in it, and at its cluster.
func (d *Document) dotScope(w io.Writer, scope int, indent string) {
	s := &d.Scopes[scope]
	for _, at := range s.Nodes {
		n := &d.Nodes[at]
		if n.Inside >= 0 {
			fmt.Fprintf(w, "%ssubgraph cluster_%d {\n%s  label=%s; color=%s; style=rounded;\n", indent, at, indent, quote(title(n)), quote(d.color(n)))
			fmt.Fprintf(w, "%s  n%d [shape=point, style=invis];\n", indent, at)
			d.dotScope(w, n.Inside, indent+"  ")
			fmt.Fprintf(w, "%s}\n", indent)
			continue
		}
		shape := ""
		switch n.Kind {
		case KindConvert:
			shape = ", shape=cds, style=dashed"
		case KindInput, KindOutput:
			shape = ", shape=plaintext, style=\"\""
		}
		fmt.Fprintf(w, "%sn%d [label=%s, color=%s%s];\n", indent, at, quote(title(n)), quote(d.color(n)), shape)
	}
	for _, e := range s.Edges {
		var attrs []string
		if n := &d.Nodes[e.From]; e.Output < len(n.Outputs) {
			attrs = append(attrs, "label="+quote(n.Outputs[e.Output].Type))
		}
		if d.Nodes[e.From].Inside >= 0 {
			attrs = append(attrs, fmt.Sprintf("ltail=cluster_%d", e.From))
		}
		if d.Nodes[e.To].Inside >= 0 {
			attrs = append(attrs, fmt.Sprintf("lhead=cluster_%d", e.To))
		}
		fmt.Fprintf(w, "%sn%d -> n%d [%s];\n", indent, e.From, e.To, strings.Join(attrs, ", "))
	}
}

// title is a node's label in a drawing without a pane beside it.
func title(n *Node) string {
	lines := []string{n.Label}
	if n.Name != "" && n.Kind != KindGroup && n.Kind != KindRegion {
		lines = append(lines, n.Name)
	}
	switch n.Kind {
	case KindConvert:
		lines = append(lines, units.Bytes(n.Bytes))
	case KindInput, KindOutput, KindRegion:
	default:
		lines = append(lines, n.Backend)
	}
	return strings.Join(lines, "\n")
}

// color returns the colour of a node's backend, gray for what is nobody's.
func (d *Document) color(n *Node) string {
	for i, b := range d.Backends {
		if b.Name == n.Backend && n.Kind != KindConvert {
			return palette[i%len(palette)]
		}
	}
	return "#666666"
}

// quote writes text as a string of DOT: quotes and backslashes are escaped, so that no name ends it or means something in it.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(s, "�") {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r == 0x7f:
			b.WriteByte(' ')
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
