package picture

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/carve-dev/carve/internal/layered"
)

// page is what is in the file besides the data. Its style and its script are fixed texts, known by their hashes to the page's own policy.
//
//go:embed page
var page embed.FS

// scripts are the parts of the script, in order.
var scripts = []string{"base.js", "graph.js", "memory.js", "timeline.js", "table.js", "main.js"}

// pagePart returns a part of the page.
func pagePart(name string) (string, error) {
	b, err := page.ReadFile("page/" + name)
	return string(b), err
}

// parts returns style and script.
func parts() (style, script string, err error) {
	if style, err = pagePart("page.css"); err != nil {
		return "", "", err
	}
	var b strings.Builder
	b.WriteString("'use strict';\n(() => {\n")
	for _, name := range scripts {
		text, err := pagePart(name)
		if err != nil {
			return "", "", err
		}
		b.WriteString(text)
	}
	b.WriteString("})();\n")
	return style, b.String(), nil
}

// sizes are those of drawn nodes that are folded, width and height in pixels, by kind.
var sizes = map[string][2]int{
	KindOp: {180, 40}, KindConvert: {180, 40}, KindHost: {180, 40}, KindGroup: {200, 56}, KindRegion: {180, 40}, KindInput: {150, 24}, KindOutput: {150, 24},
}

// gap is the space between neighbours of a layer, in pixels.
const gap = 24

// drawn is a scope's layout, as the page reads it: by place in Scope.Nodes the layer and the centre, and of nodes from which edges
// pass layers where these do.
type drawn struct {
	Layers int           `json:"layers"`
	Layer  []int         `json:"layer"`
	X      []int         `json:"x"`
	Lines  map[int][]int `json:"lines,omitempty"`
}

// pageData is what the page is about.
type pageData struct {
	*Document
	Drawn []drawn           `json:"drawn"`
	Sizes map[string][2]int `json:"sizes"`
}

// WriteHTML writes one file that shows everything and loads nothing: the layout is computed here, the page draws what is in view.
func (d *Document) WriteHTML(w io.Writer) error {
	data := pageData{Document: d, Sizes: sizes}
	for i := range d.Scopes {
		l, err := d.layout(&d.Scopes[i])
		if err != nil {
			return fmt.Errorf("picture: %w", err)
		}
		data.Drawn = append(data.Drawn, l)
	}
	// The encoder writes <, > and & of strings as \u003c and the like: no text of a model ends the element that holds it.
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	style, script, err := parts()
	if err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	frame, err := pagePart("page.html")
	if err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	policy := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'", hash(script), hash(style))
	r := strings.NewReplacer("{{policy}}", policy, "{{style}}", style, "{{script}}", script)
	head, tail, _ := strings.Cut(frame, "{{data}}")
	var b bytes.Buffer
	b.WriteString(r.Replace(head))
	b.Write(text)
	b.WriteString(r.Replace(tail))
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}

// hash is the source expression of a policy that admits this text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// layout draws a scope with all its nodes folded.
func (d *Document) layout(s *Scope) (drawn, error) {
	g := &layered.Graph{Gap: gap, Widths: make([]float64, len(s.Nodes))}
	place := make(map[int]int, len(s.Nodes))
	for i, at := range s.Nodes {
		place[at] = i
		g.Widths[i] = float64(sizes[d.Nodes[at].Kind][0])
	}
	for _, e := range s.Edges {
		g.Edges = append(g.Edges, [2]int{place[e.From], place[e.To]})
	}
	l, err := layered.Draw(g)
	if err != nil {
		return drawn{}, err
	}
	out := drawn{Layers: l.Layers, Layer: l.Layer, X: make([]int, len(l.X)), Lines: map[int][]int{}}
	for i, x := range l.X {
		out.X[i] = int(math.Round(x))
		for _, x := range l.Lines[i] {
			out.Lines[i] = append(out.Lines[i], int(math.Round(x)))
		}
	}
	return out, nil
}
