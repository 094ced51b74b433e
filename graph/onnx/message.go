package onnx

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/wire"
)

// The structs of this file are what a first pass over the messages keeps: numbers of names, and for the rest the bytes of
// the messages, which are read when the graph is built. They refer to the file.

type modelProto struct {
	ir, version      int64
	producer         [2]string // name, version
	domain, doc      string
	graph            *graphProto
	opsets           map[string]int
	meta             map[string]string
	functions        map[opKey]*functionProto
	graphMsg         []byte
	functionMessages [][]byte
}

// body is what graphs and functions have in common. Names are known by their numbers in names.
type body struct {
	names []string
	nodes []nodeProto
	info  []valueInfo // value_info, then the outputs of a graph
	typed []int32     // by name: 1 + the index in info of its type; it may be shorter than names
}

type graphProto struct {
	body
	name, doc       string
	inits           []initProto
	inputs, outputs []valueInfo
	free            []int32 // names that are used and not defined here, as the body around numbers them, in order of first use
	outer           []int32 // by name: its number in the body around where it is free, else 0; nil for the model's graph
}

type initProto struct {
	name   int32
	sparse bool
	msg    []byte
}

type valueInfo struct {
	name int32
	typ  []byte
}

type nodeProto struct {
	name   int32
	inputs int32 // how many of args
	op     *opProto
	args   []int32 // inputs, then outputs
	attrs  []*attrProto
}

func (n *nodeProto) in() []int32  { return n.args[:n.inputs] }
func (n *nodeProto) out() []int32 { return n.args[n.inputs:] }

type attrProto struct {
	name, ref string
	kind      int64
	msg       []byte
	graphs    []*graphProto
	read      *graph.Attr // once read: functions may be inlined often
}

// opKey names an operator or a function.
type opKey struct{ domain, name, overload string }

func (k opKey) String() string {
	s := k.domain + "." + k.name
	if k.overload != "" {
		s += ":" + k.overload
	}
	return s
}

// opProto is shared by all nodes of an operator.
type opProto struct{ opKey }

type functionProto struct {
	body
	key             opKey
	inputs, outputs []int32
	attrs           []string     // parameters without default
	defaults        []*attrProto // parameters with their defaults
	opsets          *opsets
}

// settleTypes fills b.typed. Of several types of a name the first one counts, and that of an output before all.
func (b *body) settleTypes(outputs []valueInfo) {
	set := func(i int, v valueInfo) {
		if int(v.name) >= len(b.typed) {
			grown := make([]int32, len(b.names))
			copy(grown, b.typed)
			b.typed = grown
		}
		b.typed[v.name] = int32(i + 1)
	}
	for i, v := range b.info {
		if int(v.name) >= len(b.typed) || b.typed[v.name] == 0 {
			set(i, v)
		}
	}
	for _, v := range outputs {
		if v.typ != nil {
			b.info = append(b.info, v)
			set(len(b.info)-1, v)
		}
	}
}

// typeOf returns the TypeProto of a name, nil where there is none.
func (b *body) typeOf(name int32) []byte {
	if int(name) >= len(b.typed) || b.typed[name] == 0 {
		return nil
	}
	return b.info[b.typed[name]-1].typ
}

// maxDepth bounds how deep graphs are nested in attributes of nodes.
const maxDepth = 64

// maxAttrs bounds the number of attributes of a node; no operator has a tenth of it.
const maxAttrs = 1 << 10

// reader reads messages into the structs above.
type reader struct {
	ctx     context.Context
	polls   int
	text    text
	symbols *symbols // of the graph or function that is read
	words   words    // of operators and attributes
	ops     map[opKey]*opProto
	args    []int32 // storage for the arguments of nodes to come
	scratch [2][]int32
}

func newReader(ctx context.Context) *reader {
	return &reader{ctx: ctx, words: words{}, ops: map[opKey]*opProto{}}
}

// name returns the number of the name in a field.
func (r *reader) name(f wire.Field, dst *int32) error {
	var b []byte
	if err := f.Bytes(&b); err != nil {
		return err
	}
	*dst = r.symbols.number(b)
	return nil
}

// names appends the number of the name in a field.
func (r *reader) names(f wire.Field, dst *[]int32) error {
	var n int32
	err := r.name(f, &n)
	*dst = append(*dst, n)
	return err
}

// begin starts the names of a body with about n of them; end goes back to those around.
func (r *reader) begin(n int) (end func()) {
	around := r.symbols
	r.symbols = newSymbols(n, &r.text)
	return func() { r.symbols = around }
}

// domainKey returns the key of an operator set: the default domain has two names.
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
	m := &modelProto{opsets: map[string]int{}, meta: map[string]string{}, functions: map[opKey]*functionProto{}}
	err := wire.Each(b, func(f wire.Field) error {
		switch f.Num {
		case 1:
			return f.Int(&m.ir)
		case 2:
			return f.Str(&m.producer[0])
		case 3:
			return f.Str(&m.producer[1])
		case 4:
			return f.Str(&m.domain)
		case 5:
			return f.Int(&m.version)
		case 6:
			return f.Str(&m.doc)
		case 7:
			return f.Bytes(&m.graphMsg)
		case 8:
			return opset(f, m.opsets)
		case 14:
			return entry(f, m.meta)
		case 25:
			var fn []byte
			err := f.Bytes(&fn)
			m.functionMessages = append(m.functionMessages, fn)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.ir < 0 {
		return nil, fmt.Errorf("%w: ir_version %d", ErrSyntax, m.ir)
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
func opset(f wire.Field, into map[string]int) error {
	var msg []byte
	if err := f.Bytes(&msg); err != nil {
		return err
	}
	var domain string
	var version int64
	err := wire.Each(msg, func(f wire.Field) error {
		switch f.Num {
		case 1:
			return f.Str(&domain)
		case 2:
			return f.Int(&version)
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
	if old := into[domain]; old != 0 && old != int(version) {
		return fmt.Errorf("%w: versions %d and %d of domain %q", ErrDuplicate, old, version, short(domain))
	}
	into[domain] = int(version)
	return nil
}

// entry reads a StringStringEntryProto.
func entry(f wire.Field, into map[string]string) error {
	var msg []byte
	if err := f.Bytes(&msg); err != nil {
		return err
	}
	var key, value string
	err := wire.Each(msg, func(f wire.Field) error {
		switch f.Num {
		case 1:
			return f.Str(&key)
		case 2:
			return f.Str(&value)
		}
		return nil
	})
	into[key] = value
	return err
}

// graph reads a GraphProto. Free names of one in an attribute become names of the body around it.
func (r *reader) graph(b []byte, depth int) (*graphProto, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: graphs in attributes, more than %d", ErrDepth, maxDepth)
	}
	g := &graphProto{}
	nodes, inits, infos := 0, 0, 0
	err := wire.Each(b, func(f wire.Field) error {
		switch f.Num {
		case 1:
			nodes++
		case 5, 15:
			inits++
		case 13:
			infos++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// A message of a node, an initializer or a type has at least 8 bytes where it is right.
	most := len(b) / 8
	g.nodes = make([]nodeProto, 0, min(nodes, most))
	g.inits = make([]initProto, 0, min(inits, most))
	g.info = make([]valueInfo, 0, min(infos, most))
	around := r.symbols
	defer r.begin(min(2*nodes+inits, most))()
	err = wire.Each(b, func(f wire.Field) error {
		switch f.Num {
		case 1:
			return r.node(f, &g.nodes, depth)
		case 2:
			return f.Str(&g.name)
		case 5, 15:
			init := initProto{sparse: f.Num == 15}
			err := f.Bytes(&init.msg)
			if err == nil {
				err = r.initName(&init)
			}
			g.inits = append(g.inits, init)
			return err
		case 10:
			return f.Str(&g.doc)
		case 11:
			return r.valueInfo(f, &g.inputs)
		case 12:
			return r.valueInfo(f, &g.outputs)
		case 13:
			return r.valueInfo(f, &g.info)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if depth > 0 {
		g.findFree(r.symbols, around)
	}
	g.names = r.symbols.names
	g.settleTypes(g.outputs)
	return g, nil
}

// initName reads the name of an initializer, without the rest of its message.
func (r *reader) initName(init *initProto) error {
	msg := init.msg
	if init.sparse { // the name is that of the values
		msg = nil
		if err := wire.Each(init.msg, func(f wire.Field) error {
			if f.Num == 1 {
				return f.Bytes(&msg)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	err := wire.Each(msg, func(f wire.Field) error {
		if f.Num == 8 {
			return r.name(f, &init.name)
		}
		return nil
	})
	if err == nil && init.name == 0 {
		err = fmt.Errorf("%w: initializer without a name", ErrSyntax)
	}
	return err
}

func (r *reader) valueInfo(f wire.Field, into *[]valueInfo) error {
	var msg []byte
	if err := f.Bytes(&msg); err != nil {
		return err
	}
	var info valueInfo
	err := wire.Each(msg, func(f wire.Field) (err error) {
		switch f.Num {
		case 1:
			err = r.name(f, &info.name)
		case 2:
			err = f.Bytes(&info.typ)
		}
		return err
	})
	*into = append(*into, info)
	return err
}

func (r *reader) node(f wire.Field, into *[]nodeProto, depth int) error {
	var msg []byte
	if err := f.Bytes(&msg); err != nil {
		return err
	}
	if r.polls++; r.polls&1023 == 0 && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	var n nodeProto
	var op opKey
	in, out := r.scratch[0][:0], r.scratch[1][:0]
	r.scratch = [2][]int32{} // graphs in attributes have nodes of their own
	err := wire.Each(msg, func(f wire.Field) error {
		switch f.Num {
		case 1:
			return r.names(f, &in)
		case 2:
			return r.names(f, &out)
		case 3:
			return r.name(f, &n.name)
		case 4:
			return r.words.of(f, &op.name)
		case 5:
			return r.attr(f, &n.attrs, depth)
		case 7:
			return r.words.of(f, &op.domain)
		case 8:
			return r.words.of(f, &op.overload)
		}
		return nil
	})
	n.inputs = int32(len(in))
	n.args = append(append(r.room(len(in)+len(out)), in...), out...)
	r.scratch = [2][]int32{in, out}
	if err == nil && op.name == "" {
		err = fmt.Errorf("%w: node without an operator", ErrSyntax)
	}
	if err == nil && !utf8.ValidString(op.name) {
		err = fmt.Errorf("%w: op_type %q is no UTF-8", ErrSyntax, short(op.name))
	}
	if err != nil {
		return at(err, n.label(r.symbols.names, len(*into)), "")
	}
	op.domain = domainKey(op.domain)
	if n.op = r.ops[op]; n.op == nil {
		n.op = &opProto{op}
		r.ops[op] = n.op
	}
	*into = append(*into, n)
	return nil
}

// room returns an empty slice with room for n numbers.
func (r *reader) room(n int) []int32 {
	if cap(r.args)-len(r.args) < n {
		r.args = make([]int32, 0, max(n, 1<<10))
	}
	from := len(r.args)
	r.args = r.args[:from+n]
	return r.args[from : from : from+n]
}

// label returns a name for messages, before it is known whether the name is unique.
func (n *nodeProto) label(names []string, i int) string {
	if n.name != 0 {
		return names[n.name]
	}
	if s := n.firstOutput(); s != 0 {
		return names[s]
	}
	return fmt.Sprintf("#%d", i)
}

func (n *nodeProto) firstOutput() int32 {
	for _, o := range n.out() {
		if o != 0 {
			return o
		}
	}
	return 0
}

func (r *reader) attr(f wire.Field, into *[]*attrProto, depth int) error {
	a := &attrProto{}
	if err := f.Bytes(&a.msg); err != nil {
		return err
	}
	err := wire.Each(a.msg, func(f wire.Field) (err error) {
		switch f.Num {
		case 1:
			err = r.words.of(f, &a.name)
		case 20:
			err = f.Int(&a.kind)
		case 21:
			err = r.words.of(f, &a.ref)
		case 6, 11:
			var msg []byte
			if err = f.Bytes(&msg); err != nil {
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
	fn := &functionProto{}
	versions := map[string]int{}
	defer r.begin(0)()
	err := wire.Each(b, func(f wire.Field) (err error) {
		switch f.Num {
		case 1:
			err = f.Str(&fn.key.name)
		case 4:
			err = r.names(f, &fn.inputs)
		case 5:
			err = r.names(f, &fn.outputs)
		case 6:
			var s string
			err = r.words.of(f, &s)
			fn.attrs = append(fn.attrs, s)
		case 7:
			err = r.node(f, &fn.nodes, 0)
		case 9:
			err = opset(f, versions)
		case 10:
			err = f.Str(&fn.key.domain)
			fn.key.domain = domainKey(fn.key.domain)
		case 11:
			err = r.attr(f, &fn.defaults, 0)
		case 12:
			err = r.valueInfo(f, &fn.info)
		case 13:
			err = f.Str(&fn.key.overload)
		}
		return err
	})
	if err == nil && fn.key.name == "" {
		err = fmt.Errorf("%w: function without a name", ErrSyntax)
	}
	if err != nil {
		return nil, at(err, fn.key.name, "")
	}
	if len(versions) > 0 {
		fn.opsets = newOpsets(versions)
	}
	fn.names = r.symbols.names
	fn.settleTypes(nil)
	return fn, nil
}

// findFree fills g.free and g.outer. Graphs in attributes of g's nodes have theirs already.
func (g *graphProto) findFree(own, around *symbols) {
	defined := make([]bool, len(own.names))
	defined[0] = true
	for _, v := range g.inputs {
		defined[v.name] = true
	}
	for _, v := range g.inits {
		defined[v.name] = true
	}
	for i := range g.nodes {
		for _, s := range g.nodes[i].out() {
			defined[s] = true
		}
	}
	g.outer = make([]int32, len(own.names))
	use := func(s int32) {
		if !defined[s] {
			defined[s] = true
			g.outer[s] = around.number([]byte(own.names[s]))
			g.free = append(g.free, g.outer[s])
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
func (n *nodeProto) eachName(f func(int32)) {
	for _, s := range n.in() {
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
