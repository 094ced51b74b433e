package microsoft

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// tokenizer cuts strings at separators, into what an expression matches, or into characters.
var tokenizer = operator{
	name:   "Tokenizer",
	schema: "in X:T\nout Y:T\nat mark:int! mincharnum:int! pad_value:string! separators:strings tokenexp:string\nty T=string",
	infer: func(c *graph.Inference) error {
		if _, err := newCutter(c.Node); err != nil {
			return err
		}
		if s := c.Shape(0); s != nil {
			c.SetType(0, graph.TensorType(tensor.String, append(append(graph.Shape{}, s...), c.Fresh())))
		}
		return nil
	},
	eval: tokenize,
}

// The tokens that mark begin and end of a string.
const startMark, endMark = "\x02", "\x03"

// cutter is how a Tokenizer cuts.
type cutter struct {
	separators []*regexp.Regexp
	tokens     *regexp.Regexp
	shortest   int
}

func newCutter(n *graph.Node) (*cutter, error) {
	c := &cutter{shortest: int(min(n.Int("mincharnum", 0), 1<<30))}
	if c.shortest < 1 {
		return nil, fmt.Errorf("%w: mincharnum %d", ErrAttribute, c.shortest)
	}
	separators, expr := n.Strs("separators"), n.Str("tokenexp", "")
	if (n.Attrs.Lookup("separators") != nil) == (n.Attrs.Lookup("tokenexp") != nil) {
		return nil, fmt.Errorf("%w: it needs either separators or tokenexp", ErrAttribute)
	}
	compile := func(s string) (*regexp.Regexp, error) {
		re, err := regexp.Compile(s)
		if err != nil || s == "" {
			return nil, fmt.Errorf("%w: expression %q", ErrAttribute, s)
		}
		re.Longest()
		return re, nil
	}
	var err error
	if n.Attrs.Lookup("tokenexp") != nil {
		c.tokens, err = compile(expr)
		return c, err
	}
	if len(separators) == 1 && separators[0] == "" {
		return c, nil // characters
	}
	for _, s := range separators {
		re, err := compile(s)
		if err != nil {
			return nil, err
		}
		c.separators = append(c.separators, re)
	}
	return c, nil
}

// cut returns the tokens of s.
func (c *cutter) cut(s string) []string {
	var parts []string
	switch {
	case c.tokens != nil:
		parts = c.tokens.FindAllString(s, -1)
	case len(c.separators) == 0:
		for _, r := range s {
			parts = append(parts, string(r))
		}
	default:
		parts = []string{s}
		for _, re := range c.separators {
			var next []string
			for _, p := range parts {
				next = append(next, re.Split(p, -1)...)
			}
			parts = next
		}
	}
	out := parts[:0]
	for _, p := range parts {
		if n := utf8.RuneCountInString(p); n >= c.shortest && n > 0 {
			out = append(out, p)
		}
	}
	return out
}

func tokenize(c *call) error {
	x, err := c.input(0, -1)
	if err != nil {
		return err
	}
	cutter, err := newCutter(c.n)
	if err != nil {
		return err
	}
	mark, pad := c.n.Int("mark", 0) != 0, c.n.Str("pad_value", "")
	rows := make([][]string, x.Len())
	most := 0
	for i, s := range x.Strings {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%w: string %d is no UTF-8", ErrShape, i)
		}
		rows[i] = cutter.cut(s)
		most = max(most, len(rows[i]))
	}
	if mark && most > 0 { // where there are no tokens at all, there are no marks either
		most += 2
		for i := range rows {
			rows[i] = append(append([]string{startMark}, rows[i]...), endMark)
		}
	}
	if most > 0 && len(rows) > maxTokens/most {
		return fmt.Errorf("%w: %d strings of up to %d tokens", ErrShape, len(rows), most)
	}
	out := make([]string, 0, len(rows)*most)
	for _, r := range rows {
		out = append(out, r...)
		for range most - len(r) {
			out = append(out, pad)
		}
	}
	c.out[0] = tensor.FromStrings(out, append(append([]int{}, x.Shape...), most)...)
	return nil
}

// maxTokens bounds the tokens of a result, padding included.
const maxTokens = 1 << 26
