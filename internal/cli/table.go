package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// newTable returns a writer that aligns cells separated by tabs. Flush it.
func newTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(&trimmed{to: w}, 0, 8, 2, ' ', 0)
}

// row writes one row of cells, none of which can break the table.
func row(w io.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = cell(fmt.Sprint(c))
	}
	fmt.Fprintln(w, strings.Join(text, "\t"))
}

// trimmed writes lines without the spaces at their ends.
type trimmed struct {
	to     io.Writer
	spaces int // that were given and not written
}

func (t *trimmed) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p)+t.spaces)
	for _, b := range p {
		switch b {
		case ' ':
			t.spaces++
			continue
		case '\n':
		default:
			out = append(out, strings.Repeat(" ", t.spaces)...)
		}
		t.spaces = 0
		out = append(out, b)
	}
	if _, err := t.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cell makes text from a model fit for a table.
func cell(s string) string {
	s = strings.ReplaceAll(oneLine(s), "\t", " ")
	const most = 120
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}

// writeJSON writes v as indented JSON.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// counted returns "1 node" or "n nodes".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
