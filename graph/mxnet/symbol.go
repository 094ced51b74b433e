package mxnet

import (
	"fmt"
	"slices"
)

// Symbol is a graph as MXNet's JSON has it, brought up to date: what older versions wrote otherwise is as 1.9 would have it.
// It is safe for concurrent reads.
type Symbol struct {
	Nodes   []Node
	Heads   []Entry
	Version int  // of MXNet, such as 10901 for 1.9.1; 800 where the file does not say
	NumPy   bool // whether it follows NumPy's rules of shapes
}

// Node is an operator or a variable.
type Node struct {
	Op        string // "null" for a variable
	Name      string // need not be unique
	Attrs     []Pair // parameters of the operator as text, in the order of the file
	Inputs    []Entry
	Subgraphs []*Symbol // bodies of control flow, or what a fused operator stands for
	Offset    int64     // where the node begins in the file, -1 for one that an upgrade made
}

// Pair is a key with its value.
type Pair struct{ Key, Value string }

// Entry is an output of a node, by the node's place in Nodes.
type Entry struct{ Node, Index int }

// IsVariable reports whether the node is an input, a parameter or an auxiliary state.
func (n *Node) IsVariable() bool { return n.Op == "null" }

// Attr returns the value of a key; ok is false where the node has none.
func (n *Node) Attr(key string) (value string, ok bool) {
	for _, p := range n.Attrs {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// set gives the node a value in place of one that it has.
func (n *Node) set(key, value string) {
	for i := range n.Attrs {
		if n.Attrs[i].Key == key {
			n.Attrs[i].Value = value
			return
		}
	}
	n.Attrs = append(n.Attrs, Pair{key, value})
}

func (n *Node) remove(key string) {
	n.Attrs = slices.DeleteFunc(n.Attrs, func(p Pair) bool { return p.Key == key })
}

// Bounds of what is read of a symbol.
const (
	maxSymbol = 64 << 20 // bytes
	maxDepth  = 32       // of symbols in symbols
)

// ParseSymbol reads a symbol as any version of MXNet from 0.8 wrote it, and upgrades it. Entries name nodes that are there,
// and no node needs its own result. The strings of the Symbol share one copy of the file. Faults are an *Error with the offset.
// Cost: time and memory in the size of the file.
func ParseSymbol(b []byte) (*Symbol, error) {
	if len(b) > maxSymbol {
		return nil, &Error{Op: "load", Offset: -1, Err: fmt.Errorf("%w: a symbol of %d bytes", ErrTooLarge, len(b))}
	}
	r := &scanner{s: string(b)}
	p := symbolReader{scanner: r}
	s, err := p.symbol(0)
	if err != nil {
		return nil, err
	}
	if r.next() != 0 || r.i < len(r.s) {
		return nil, r.fault("something behind the symbol")
	}
	if err := upgrade(s, s.Version); err != nil {
		return nil, err
	}
	return s, nil
}

type symbolReader struct{ *scanner }

// symbol reads the object that a symbol is.
func (r symbolReader) symbol(depth int) (*Symbol, error) {
	if depth > maxDepth {
		return nil, r.fault("symbols nested deeper than %d", maxDepth)
	}
	s := &Symbol{Version: 800}
	start := r.i
	var args []int
	hasNodes, hasHeads := false, false
	err := r.object(func(key string) (err error) {
		switch key {
		case "nodes":
			hasNodes = true
			return r.array(func() error {
				n, err := r.node(depth)
				s.Nodes = append(s.Nodes, n)
				return err
			})
		case "arg_nodes":
			args, err = r.integers()
		case "node_row_ptr":
			_, err = r.integers()
		case "heads":
			hasHeads = true
			s.Heads, err = r.entries()
		case "attrs":
			err = r.graphAttrs(s)
		default:
			err = r.fault("key %.80q of a symbol", key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if !hasNodes || !hasHeads {
		r.i = start
		return nil, r.fault("a symbol without nodes or heads")
	}
	return s, s.check(args, int64(start))
}

// check looks whether entries name nodes in front of their reader.
func (s *Symbol) check(args []int, start int64) error {
	bad := func(offset int64, node, format string, a ...any) error {
		return &Error{Op: "load", Node: node, Offset: offset, Err: fmt.Errorf("%w: "+format, append([]any{ErrSyntax}, a...)...)}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.IsVariable() && len(n.Inputs) > 0 {
			return bad(n.Offset, n.Name, "a variable has inputs")
		}
		for _, e := range n.Inputs {
			switch {
			case e.Node < 0 || e.Node >= len(s.Nodes) || e.Index < 0:
				return bad(n.Offset, n.Name, "output %d of node %d of %d", e.Index, e.Node, len(s.Nodes))
			case e.Node >= i:
				return bad(n.Offset, n.Name, "it reads node %d, which does not stand in front of it: %w", e.Node, ErrCycle)
			}
		}
	}
	for _, e := range s.Heads {
		if e.Node < 0 || e.Node >= len(s.Nodes) || e.Index < 0 {
			return bad(start, "", "a head is output %d of node %d of %d", e.Index, e.Node, len(s.Nodes))
		}
	}
	for _, a := range args {
		if a < 0 || a >= len(s.Nodes) || !s.Nodes[a].IsVariable() {
			return bad(start, "", "argument %d is no variable", a)
		}
	}
	return nil
}

// node reads a node. Its keys "attr", "attrs" and "param" fill one list; "param" replaces nothing.
func (r symbolReader) node(depth int) (n Node, err error) {
	r.space()
	n.Offset = int64(r.i)
	var params []Pair
	has := map[string]bool{}
	err = r.object(func(key string) (err error) {
		has[key] = true
		switch key {
		case "op":
			n.Op, err = r.str()
		case "name":
			n.Name, err = r.str()
		case "inputs":
			n.Inputs, err = r.entries()
		case "attr", "attrs":
			n.Attrs, err = r.pairs()
		case "param":
			params, err = r.pairs()
		case "control_deps":
			_, err = r.integers()
		case "backward_source_id":
			_, err = r.integer()
		case "subgraphs":
			err = r.array(func() error {
				s, err := r.symbol(depth + 1)
				n.Subgraphs = append(n.Subgraphs, s)
				return err
			})
		default:
			err = r.fault("key %.80q of a node", key)
		}
		return err
	})
	if err != nil {
		return n, located(err, "", n.Name)
	}
	if !has["op"] || !has["name"] || !has["inputs"] {
		r.i = int(n.Offset)
		return n, r.fault("a node without op, name or inputs")
	}
	for _, p := range params {
		if _, ok := n.Attr(p.Key); !ok {
			n.Attrs = append(n.Attrs, p)
		}
	}
	return n, nil
}

// maxPairs bounds the attributes of one node: they are looked up one by one.
const maxPairs = 1 << 10

func (r symbolReader) pairs() (out []Pair, err error) {
	err = r.object(func(key string) error {
		v, err := r.str()
		if err != nil {
			return err
		}
		for i := range out {
			if out[i].Key == key {
				out[i].Value = v
				return nil
			}
		}
		if len(out) >= maxPairs {
			return r.fault("more than %d attributes", maxPairs)
		}
		out = append(out, Pair{key, v})
		return nil
	})
	return out, err
}

// entries reads a list of [node, output] or [node, output, version].
func (r symbolReader) entries() (out []Entry, err error) {
	err = r.array(func() error {
		var v [3]int
		n := 0
		err := r.array(func() (err error) {
			if n == len(v) {
				return r.fault("an entry of more than 3 numbers")
			}
			v[n], err = r.integer()
			n++
			return err
		})
		if err == nil && n < 2 {
			err = r.fault("an entry of %d numbers", n)
		}
		out = append(out, Entry{v[0], v[1]})
		return err
	})
	return out, err
}

// graphAttrs reads the attributes of a symbol: each is [type, value].
func (r symbolReader) graphAttrs(s *Symbol) error {
	return r.object(func(key string) error {
		n := 0
		return r.array(func() error {
			n++
			switch {
			case n == 1:
				_, err := r.str()
				return err
			case n == 2 && (key == "mxnet_version" || key == "is_np_shape"):
				v, err := r.integer()
				if key == "mxnet_version" {
					s.Version = v
				} else {
					s.NumPy = v != 0
				}
				return err
			}
			return r.skip(0)
		})
	})
}

// skip reads any value.
func (r symbolReader) skip(depth int) error {
	if depth > maxDepth {
		return r.fault("values nested deeper than %d", maxDepth)
	}
	switch c := r.next(); {
	case c == '"':
		_, err := r.str()
		return err
	case c == '[':
		return r.array(func() error { return r.skip(depth + 1) })
	case c == '{':
		return r.object(func(string) error { return r.skip(depth + 1) })
	}
	start := r.i
	for r.i < len(r.s) && (r.s[r.i] >= '0' && r.s[r.i] <= '9' || r.s[r.i] >= 'a' && r.s[r.i] <= 'z' || r.s[r.i] == '-' || r.s[r.i] == '+' || r.s[r.i] == '.' || r.s[r.i] == 'E') {
		r.i++
	}
	if r.i == start {
		return r.fault("a value is expected")
	}
	return nil
}
