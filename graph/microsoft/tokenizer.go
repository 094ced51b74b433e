package microsoft

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
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

// cutter is how a Tokenizer cuts. Expressions that are a class of characters, or one or more of them, and separators without operators are
// recognised: tokens of the former are characters, or runs of them, and the latter are searched for as they are. Where all separators are such
// classes, tokens are runs of the characters that are in none, as there are no empty ones.
type cutter struct {
	separators []separator
	tokens     *regexp.Regexp
	class      func(r rune) bool // of the tokens, where they are characters or runs of such
	runs       bool
	shortest   int
}

// separator is text, or where that is empty an expression.
type separator struct {
	text string
	expr *regexp.Regexp
}

func (s *separator) split(p string) []string {
	if s.text != "" {
		return strings.Split(p, s.text)
	}
	return s.expr.Split(p, -1)
}

// classOf returns what tells the characters of an expression that is a class, nil for others; runs says that it is one or more of them.
func classOf(expr string) (class func(r rune) bool, runs bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, false
	}
	if runs = re.Op == syntax.OpPlus; runs {
		re = re.Sub[0]
	}
	var ranges []rune
	switch {
	case re.Op == syntax.OpCharClass:
		ranges = re.Rune
	case re.Op == syntax.OpAnyCharNotNL:
		ranges = []rune{0, '\n' - 1, '\n' + 1, utf8.MaxRune}
	case re.Op == syntax.OpLiteral && len(re.Rune) == 1 && re.Flags&syntax.FoldCase == 0:
		ranges = []rune{re.Rune[0], re.Rune[0]}
	case re.Op == syntax.OpAnyChar:
		ranges = []rune{0, utf8.MaxRune}
	default:
		return nil, false
	}
	return looked(func(r rune) bool {
		for i := 0; i < len(ranges); i += 2 {
			if ranges[i] <= r && r <= ranges[i+1] {
				return true
			}
		}
		return false
	}), runs
}

// noneOf returns what tells the characters that none of some expressions matches, nil where one of these is no class, nor a run of one.
func noneOf(exprs []string) func(r rune) bool {
	classes := make([]func(r rune) bool, len(exprs))
	for i, e := range exprs {
		if classes[i], _ = classOf(e); classes[i] == nil {
			return nil
		}
	}
	return looked(func(r rune) bool {
		return !slices.ContainsFunc(classes, func(in func(r rune) bool) bool { return in(r) })
	})
}

// looked returns in with its answers for ASCII in a table.
func looked(in func(r rune) bool) func(r rune) bool {
	var ascii [utf8.RuneSelf]bool
	for r := range ascii {
		ascii[r] = in(rune(r))
	}
	return func(r rune) bool {
		if r < utf8.RuneSelf {
			return ascii[r]
		}
		return in(r)
	}
}

// cutClass adds the tokens of a string: the characters of the class, or the runs of them.
func (c *cutter) cutClass(parts []string, s string) []string {
	from := -1
	for at, r := range s {
		in := c.class(r)
		switch {
		case in && !c.runs:
			parts = append(parts, s[at:at+utf8.RuneLen(r)])
		case in && from < 0:
			from = at
		case !in && from >= 0:
			parts, from = append(parts, s[from:at]), -1
		}
	}
	if from >= 0 {
		parts = append(parts, s[from:])
	}
	return parts
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
		if c.class, c.runs = classOf(expr); c.class != nil {
			return c, nil
		}
		c.tokens, err = compile(expr)
		return c, err
	}
	if len(separators) == 1 && separators[0] == "" {
		return c, nil // characters
	}
	if c.class = noneOf(separators); c.class != nil {
		c.runs = true
		return c, nil
	}
	for _, s := range separators {
		re, err := compile(s)
		if err != nil {
			return nil, err
		}
		one := separator{expr: re}
		if text, whole := re.LiteralPrefix(); whole {
			one.text = text
		}
		c.separators = append(c.separators, one)
	}
	return c, nil
}

// cut adds the tokens of s to a list.
func (c *cutter) cut(list []string, s string) []string {
	first := len(list)
	switch {
	case c.class != nil:
		list = c.cutClass(list, s)
	case c.tokens != nil:
		list = append(list, c.tokens.FindAllString(s, -1)...)
	case len(c.separators) == 0:
		if c.shortest > 1 {
			return list
		}
		return addCharacters(list, s)
	default:
		parts := []string{s}
		for i := range c.separators {
			var next []string
			for _, p := range parts {
				next = append(next, c.separators[i].split(p)...)
			}
			parts = next
		}
		list = append(list, parts...)
	}
	out := list[:first]
	for _, p := range list[first:] {
		if len(p) > 0 && (c.shortest == 1 || utf8.RuneCountInString(p) >= c.shortest) {
			out = append(out, p)
		}
	}
	return out
}

// characters returns how many characters strings have where those are tokens, 0 where tokens are longer.
func (c *cutter) characters(list []string) (n int) {
	if c.shortest > 1 || c.tokens != nil || len(c.separators) > 0 || c.class != nil && c.runs {
		return 0
	}
	for _, s := range list {
		n += utf8.RuneCountInString(s)
	}
	return n
}

// addCharacters adds the characters of s to a list.
func addCharacters(list []string, s string) []string {
	for s != "" {
		size := 1
		if s[0] >= utf8.RuneSelf {
			_, size = utf8.DecodeRuneInString(s)
		}
		list, s = append(list, s[:size]), s[size:]
	}
	return list
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
	tokens := make([]string, 0, cutter.characters(x.Strings)) // of all strings
	ends := make([]int, x.Len())
	most := 0
	for i, s := range x.Strings {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%w: string %d is no UTF-8", ErrShape, i)
		}
		before := len(tokens)
		tokens = cutter.cut(tokens, s)
		ends[i], most = len(tokens), max(most, len(tokens)-before)
	}
	if mark = mark && most > 0; mark { // where there are no tokens at all, there are no marks either
		most += 2
	}
	if most > 0 && len(ends) > maxTokens/most {
		return fmt.Errorf("%w: %d strings of up to %d tokens", ErrShape, len(ends), most)
	}
	out := make([]string, 0, len(ends)*most)
	first := 0
	for i, end := range ends {
		if mark {
			out = append(out, startMark)
		}
		if out, first = append(out, tokens[first:end]...), end; mark {
			out = append(out, endMark)
		}
		for len(out) < (i+1)*most {
			out = append(out, pad)
		}
	}
	c.out[0] = tensor.FromStrings(out, append(append([]int{}, x.Shape...), most)...)
	return nil
}

// maxTokens bounds the tokens of a result, padding included.
const maxTokens = 1 << 26
