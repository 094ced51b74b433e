package cpu

import (
	"encoding/binary"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// RegexFullMatch runs a deterministic automaton over the bytes of a string, whose states are sets of instructions of Go's compiled expression and are
// made when a run first needs them. What it does not know is left to package regexp, which package reference uses: strings with other bytes than
// ASCII's, word boundaries and ends of lines, and strings that need more states than it keeps. Source: R. Cox, Regular Expression Matching Can Be
// Simple And Fast, https://swtch.com/~rsc/regexp/regexp1.html.

const (
	mostRegexStates       = 256 // of 1 KiB each, and the numbers of their instructions
	mostRegexInstructions = 1 << 12
)

// fullMatcher matches whole strings. It is safe for concurrent use.
type fullMatcher struct {
	re    *regexp.Regexp
	prog  *syntax.Prog
	start *regexState // nil where the automaton cannot match the expression

	mu     sync.Mutex // of what follows
	states map[string]*regexState
	seen   []bool   // by instruction, all false between calls
	stack  []uint32 // of instructions to follow
}

// regexState is a set of instructions: those that read a byte, and those that pass at the end of the text alone.
type regexState struct {
	set    []uint32
	accept bool // at the end of the text
	next   [128]atomic.Pointer[regexState]
}

// newFullMatcher compiles a pattern as package reference does.
func newFullMatcher(pattern string) (*fullMatcher, error) {
	whole := "^(?:" + pattern + ")$"
	re, err := regexp.Compile(whole)
	if err != nil {
		return nil, err
	}
	m := &fullMatcher{re: re, states: map[string]*regexState{}}
	tree, err := syntax.Parse(whole, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if m.prog, err = syntax.Compile(tree.Simplify()); err != nil {
		return nil, err
	}
	if len(m.prog.Inst) > mostRegexInstructions {
		return m, nil
	}
	for i := range m.prog.Inst {
		in := &m.prog.Inst[i]
		if in.Op == syntax.InstEmptyWidth && syntax.EmptyOp(in.Arg)&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0 {
			return m, nil
		}
	}
	m.seen = make([]bool, len(m.prog.Inst))
	begin := []uint32{uint32(m.prog.Start)} // an instruction's number
	m.start = &regexState{set: m.closure(begin, syntax.EmptyBeginText), accept: m.matches(begin, syntax.EmptyBeginText|syntax.EmptyEndText)}
	return m, nil
}

// closure returns, in order, the instructions that are reached from some without reading a byte where the text is at such a place, and stay: those
// that read one, those that match, and those that pass at the end alone.
func (m *fullMatcher) closure(from []uint32, at syntax.EmptyOp) []uint32 {
	var set, all []uint32
	m.stack = append(m.stack[:0], from...)
	for len(m.stack) > 0 {
		pc := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		if m.seen[pc] {
			continue
		}
		m.seen[pc] = true
		all = append(all, pc)
		in := &m.prog.Inst[pc]
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			m.stack = append(m.stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			m.stack = append(m.stack, in.Out)
		case syntax.InstEmptyWidth:
			switch need := syntax.EmptyOp(in.Arg) &^ at; {
			case need == 0:
				m.stack = append(m.stack, in.Out)
			case need == syntax.EmptyEndText:
				set = append(set, pc)
			}
		case syntax.InstFail:
		case syntax.InstMatch, syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			set = append(set, pc)
		}
	}
	for _, pc := range all {
		m.seen[pc] = false
	}
	slices.Sort(set)
	return set
}

// matches reports whether the expression has matched when the text is at such a place.
func (m *fullMatcher) matches(from []uint32, at syntax.EmptyOp) bool {
	return slices.ContainsFunc(m.closure(from, at), func(pc uint32) bool { return m.prog.Inst[pc].Op == syntax.InstMatch })
}

// step returns the state behind a byte of ASCII, nil where there are too many states.
func (m *fullMatcher) step(s *regexState, b byte) *regexState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := s.next[b].Load(); n != nil {
		return n
	}
	var out []uint32
	for _, pc := range s.set {
		switch in := &m.prog.Inst[pc]; in.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if in.MatchRune(rune(b)) {
				out = append(out, in.Out)
			}
		case syntax.InstAlt, syntax.InstAltMatch, syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstMatch, syntax.InstFail, syntax.InstNop:
		}
	}
	set := m.closure(out, 0)
	var key []byte
	for _, pc := range set {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	n := m.states[string(key)]
	if n == nil {
		if len(m.states) == mostRegexStates {
			return nil
		}
		n = &regexState{set: set, accept: m.matches(set, syntax.EmptyEndText)}
		m.states[string(key)] = n
	}
	s.next[b].Store(n)
	return n
}

// match reports whether the expression matches the whole string.
func (m *fullMatcher) match(text string) bool {
	s := m.start
	if s == nil {
		return m.re.MatchString(text)
	}
	for i := range len(text) {
		b := text[i]
		if b >= 128 {
			return m.re.MatchString(text)
		}
		n := s.next[b].Load()
		if n == nil {
			if n = m.step(s, b); n == nil {
				return m.re.MatchString(text)
			}
		}
		if s = n; len(s.set) == 0 {
			return false
		}
	}
	return s.accept
}

func regexSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if _, err := newFullMatcher(n.Str("pattern", "")); err != nil {
		return nil, property.Because(property.Attribute, "pattern: %v", err)
	}
	return operators.RowMajor(n), nil
}

func planRegex(p *planner, n *graph.Node) error {
	m, err := keep(p.e, n, func() (*fullMatcher, error) { return newFullMatcher(n.Str("pattern", "")) })
	if err != nil {
		return err
	}
	x, y := n.Inputs[0], n.Outputs[0]
	from, dst := p.textsOf(x), p.Out(y)
	p.emit(step{chunks: product(p.Dims[y.ID]), grain: grainFor(100), body: func(st *state, _, lo, hi int) {
		list, out := from.list(st), of[uint8](st, dst)
		for i := lo; i < hi; i++ {
			out[i] = 0
			if m.match(list[from.first+i*from.step]) {
				out[i] = 1
			}
		}
	}}, []place.Memory{p.In(x)}, []place.Memory{dst})
	return nil
}

func init() {
	textTable.Register("RegexFullMatch", operator{Signatures: regexSignatures, Plan: planRegex})
}
