package onnx

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// The structs of this file are what a first pass over the messages keeps: names, and for the rest the bytes of the
// messages, which are read when the graph is built. They refer to the file.

type modelProto struct {
	ir, version      int64
	producer         [2]string // name, version
	domain, doc      string
	graph            *graphProto
	opsets           map[string]int
	meta             map[string]string
	functions        map[functionKey]*functionProto
	graphMsg         []byte
	functionMessages [][]byte
}

type graphProto struct {
	name, doc       string
	nodes           []nodeProto
	inits           []initProto
	inputs, outputs []valueInfo
	types           map[string][]byte // value_info and outputs: the bytes of the TypeProto
	free            []string          // names that are used and not defined here, in order of first use
}

type initProto struct {
	name   string
	msg    []byte
	sparse bool
}

type valueInfo struct {
	name string
	typ  []byte
}

type nodeProto struct {
	name, op, domain, overload string
	in, out                    []string
	attrs                      []*attrProto
}

type attrProto struct {
	name, ref string
	kind      int64
	msg       []byte
	graphs    []*graphProto
	read      *graph.Attr // once read: functions may be inlined often
}

type functionKey struct{ domain, name, overload string }

func (k functionKey) String() string {
	s := k.domain + "." + k.name
	if k.overload != "" {
		s += ":" + k.overload
	}
	return s
}

type functionProto struct {
	key             functionKey
	inputs, outputs []string
	attrs           []string     // parameters without default
	defaults        []*attrProto // parameters with their defaults
	nodes           []nodeProto
	opsets          map[string]int
	types           map[string][]byte
}

// maxDepth bounds how deep graphs are nested in attributes of nodes.
const maxDepth = 64

// maxAttrs bounds the number of attributes of a node; no operator has a tenth of it.
const maxAttrs = 1 << 10

// reader reads messages into the structs above.
type reader struct {
	ctx   context.Context
	polls int
	names map[string]string
}

// name returns a string of a field, the same one for the same bytes.
func (r *reader) name(f field) (string, error) {
	if s, ok := r.names[string(f.b)]; ok && f.b != nil {
		return s, nil
	}
	var s string
	if err := f.str(&s); err != nil {
		return "", err
	}
	r.names[s] = s
	return s, nil
}

// domain returns the key of an operator set: the default domain has two names.
func domainKey(s string) string {
	if s == "ai.onnx" {
		return ""
	}
	return s
}

func (r *reader) model(b []byte) (*modelProto, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: the file is empty", ErrTruncated)
	}
	m := &modelProto{opsets: map[string]int{}, meta: map[string]string{}, functions: map[functionKey]*functionProto{}}
	err := eachField(b, func(f field) error {
		switch f.num {
		case 1:
			return f.int(&m.ir)
		case 2:
			return f.str(&m.producer[0])
		case 3:
			return f.str(&m.producer[1])
		case 4:
			return f.str(&m.domain)
		case 5:
			return f.int(&m.version)
		case 6:
			return f.str(&m.doc)
		case 7:
			return f.bytes(&m.graphMsg)
		case 8:
			return opset(f, m.opsets)
		case 14:
			return entry(f, m.meta)
		case 25:
			var fn []byte
			err := f.bytes(&fn)
			m.functionMessages = append(m.functionMessages, fn)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.graphMsg == nil {
		return nil, fmt.Errorf("%w: no graph in the model", ErrSyntax)
	}
	for _, msg := range m.functionMessages {
		fn, err := r.function(msg)
		if err != nil {
			return nil, err
		}
		if m.functions[fn.key] != nil {
			return nil, fmt.Errorf("%w: function %s", ErrDuplicate, short(fn.key.String()))
		}
		m.functions[fn.key] = fn
	}
	if m.graph, err = r.graph(m.graphMsg, 0); err != nil {
		return nil, err
	}
	return m, nil
}

// opset reads an OperatorSetIdProto.
func opset(f field, into map[string]int) error {
	var msg []byte
	if err := f.bytes(&msg); err != nil {
		return err
	}
	var domain string
	var version int64
	err := eachField(msg, func(f field) error {
		switch f.num {
		case 1:
			return f.str(&domain)
		case 2:
			return f.int(&version)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if version < 1 || version > 1<<20 {
		return fmt.Errorf("%w: version %d of domain %q", ErrUnsupportedOpset, version, short(domain))
	}
	domain = domainKey(domain)
	into[domain] = max(into[domain], int(version)) // the highest counts
	return nil
}

// entry reads a StringStringEntryProto.
func entry(f field, into map[string]string) error {
	var msg []byte
	if err := f.bytes(&msg); err != nil {
		return err
	}
	var key, value string
	err := eachField(msg, func(f field) error {
		switch f.num {
		case 1:
			return f.str(&key)
		case 2:
			return f.str(&value)
		}
		return nil
	})
	into[key] = value
	return err
}

func (r *reader) graph(b []byte, depth int) (*graphProto, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: graphs in attributes, more than %d", ErrDepth, maxDepth)
	}
	g := &graphProto{types: map[string][]byte{}}
	nodes, inits := 0, 0
	err := eachField(b, func(f field) error {
		switch f.num {
		case 1:
			nodes++
		case 5, 15:
			inits++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// A message of a node or initializer has at least 8 bytes where it is right.
	g.nodes = make([]nodeProto, 0, min(nodes, len(b)/8))
	g.inits = make([]initProto, 0, min(inits, len(b)/8))
	err = eachField(b, func(f field) error {
		switch f.num {
		case 1:
			return r.node(f, &g.nodes, depth)
		case 2:
			return f.str(&g.name)
		case 5, 15:
			init := initProto{sparse: f.num == 15}
			if err := f.bytes(&init.msg); err != nil {
				return err
			}
			var err error
			init.name, err = r.initName(init)
			g.inits = append(g.inits, init)
			return err
		case 10:
			return f.str(&g.doc)
		case 11:
			return r.valueInfo(f, &g.inputs)
		case 12:
			return r.valueInfo(f, &g.outputs)
		case 13:
			var info []valueInfo
			if err := r.valueInfo(f, &info); err != nil {
				return err
			}
			if _, ok := g.types[info[0].name]; !ok {
				g.types[info[0].name] = info[0].typ
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, o := range g.outputs {
		if o.typ != nil {
			g.types[o.name] = o.typ
		}
	}
	if depth > 0 {
		g.findFree()
	}
	return g, nil
}

// initName returns the name of an initializer, without reading the rest of its message.
func (r *reader) initName(init initProto) (name string, err error) {
	msg := init.msg
	if init.sparse { // the name is that of the values
		msg = nil
		if err := eachField(init.msg, func(f field) error {
			if f.num == 1 {
				return f.bytes(&msg)
			}
			return nil
		}); err != nil {
			return "", err
		}
	}
	err = eachField(msg, func(f field) error {
		if f.num == 8 {
			var err error
			name, err = r.name(f)
			return err
		}
		return nil
	})
	if err == nil && name == "" {
		err = fmt.Errorf("%w: initializer without a name", ErrSyntax)
	}
	return name, err
}

func (r *reader) valueInfo(f field, into *[]valueInfo) error {
	var msg []byte
	if err := f.bytes(&msg); err != nil {
		return err
	}
	var info valueInfo
	err := eachField(msg, func(f field) (err error) {
		switch f.num {
		case 1:
			info.name, err = r.name(f)
		case 2:
			err = f.bytes(&info.typ)
		}
		return err
	})
	*into = append(*into, info)
	return err
}

func (r *reader) node(f field, into *[]nodeProto, depth int) error {
	var msg []byte
	if err := f.bytes(&msg); err != nil {
		return err
	}
	if r.polls++; r.polls&1023 == 0 && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	var n nodeProto
	err := eachField(msg, func(f field) (err error) {
		var s string
		switch f.num {
		case 1:
			s, err = r.name(f)
			n.in = append(n.in, s)
		case 2:
			s, err = r.name(f)
			n.out = append(n.out, s)
		case 3:
			n.name, err = r.name(f)
		case 4:
			n.op, err = r.name(f)
		case 5:
			err = r.attr(f, &n.attrs, depth)
		case 7:
			n.domain, err = r.name(f)
			n.domain = domainKey(n.domain)
		case 8:
			n.overload, err = r.name(f)
		}
		return err
	})
	if err == nil && n.op == "" {
		err = fmt.Errorf("%w: node without an operator", ErrSyntax)
	}
	if err != nil {
		return at(err, n.label(len(*into)), "")
	}
	*into = append(*into, n)
	return nil
}

// label returns a name for messages, before it is known whether the name is unique.
func (n *nodeProto) label(i int) string {
	if n.name != "" {
		return n.name
	}
	if s := n.firstOutput(); s != "" {
		return s
	}
	return fmt.Sprintf("#%d", i)
}

func (n *nodeProto) firstOutput() string {
	for _, o := range n.out {
		if o != "" {
			return o
		}
	}
	return ""
}

func (r *reader) attr(f field, into *[]*attrProto, depth int) error {
	a := &attrProto{}
	if err := f.bytes(&a.msg); err != nil {
		return err
	}
	err := eachField(a.msg, func(f field) (err error) {
		switch f.num {
		case 1:
			a.name, err = r.name(f)
		case 20:
			err = f.int(&a.kind)
		case 21:
			a.ref, err = r.name(f)
		case 6, 11:
			var msg []byte
			if err = f.bytes(&msg); err != nil {
				return err
			}
			var g *graphProto
			g, err = r.graph(msg, depth+1)
			a.graphs = append(a.graphs, g)
		}
		return err
	})
	if err == nil && a.name == "" {
		err = fmt.Errorf("%w: attribute without a name", ErrSyntax)
	}
	if len(*into) == maxAttrs {
		return fmt.Errorf("%w: more than %d attributes", ErrTooLarge, maxAttrs)
	}
	for _, b := range *into {
		if err == nil && a.name == b.name {
			err = fmt.Errorf("%w: attribute", ErrDuplicate)
		}
	}
	if err != nil {
		return at(err, "", a.name)
	}
	*into = append(*into, a)
	return nil
}

func (r *reader) function(b []byte) (*functionProto, error) {
	fn := &functionProto{opsets: map[string]int{}, types: map[string][]byte{}}
	err := eachField(b, func(f field) (err error) {
		var s string
		switch f.num {
		case 1:
			err = f.str(&fn.key.name)
		case 4:
			s, err = r.name(f)
			fn.inputs = append(fn.inputs, s)
		case 5:
			s, err = r.name(f)
			fn.outputs = append(fn.outputs, s)
		case 6:
			s, err = r.name(f)
			fn.attrs = append(fn.attrs, s)
		case 7:
			err = r.node(f, &fn.nodes, 0)
		case 9:
			err = opset(f, fn.opsets)
		case 10:
			err = f.str(&fn.key.domain)
			fn.key.domain = domainKey(fn.key.domain)
		case 11:
			err = r.attr(f, &fn.defaults, 0)
		case 12:
			var info []valueInfo
			if err = r.valueInfo(f, &info); err == nil {
				fn.types[info[0].name] = info[0].typ
			}
		case 13:
			err = f.str(&fn.key.overload)
		}
		return err
	})
	if err == nil && fn.key.name == "" {
		err = fmt.Errorf("%w: function without a name", ErrSyntax)
	}
	if err != nil {
		return nil, at(err, fn.key.name, "")
	}
	return fn, nil
}

// findFree fills g.free. Graphs in attributes of g's nodes have theirs already.
func (g *graphProto) findFree() {
	defined := map[string]bool{"": true}
	for _, v := range g.inputs {
		defined[v.name] = true
	}
	for _, v := range g.inits {
		defined[v.name] = true
	}
	for i := range g.nodes {
		for _, s := range g.nodes[i].out {
			defined[s] = true
		}
	}
	use := func(s string) {
		if !defined[s] {
			defined[s] = true
			g.free = append(g.free, s)
		}
	}
	for i := range g.nodes {
		g.nodes[i].eachName(use)
	}
	for _, o := range g.outputs {
		use(o.name)
	}
}

// eachName calls f with every name that the node needs: its inputs, and what its graphs use from outside.
func (n *nodeProto) eachName(f func(string)) {
	for _, s := range n.in {
		f(s)
	}
	for _, a := range n.attrs {
		for _, g := range a.graphs {
			for _, s := range g.free {
				f(s)
			}
		}
	}
}
