package reference

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/property"
)

// DefaultMaxBytes bounds the size in bytes of one result, and of one piece of working memory, where Call.MaxBytes is 0.
const DefaultMaxBytes = 4 << 30

// ErrAttribute is wrapped by errors about attributes and contents of operands that the operator does not admit. Other
// causes are those of package tensor: ErrShape, ErrDType, ErrTooLarge, ErrUnsupported, ErrNotHost.
var ErrAttribute = errors.New("value not admitted")

// ErrKernel is wrapped by the error of a kernel that ran into a fault of its own on operands that it should have
// refused. It is a defect of this package; the process goes on.
var ErrKernel = errors.New("kernel failed")

// Error is the error of this package: the node, the port or attribute that is at fault ("" for the node as a whole),
// and the cause.
type Error struct {
	Op   graph.Op
	Node string // the node's label
	Port string // name of the input, output or attribute
	Err  error
}

// Error returns `Conv "conv1", input W: cause`.
func (e *Error) Error() string {
	s := fmt.Sprintf("%v %q", e.Op, e.Node)
	if e.Port != "" {
		s += ", " + e.Port
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Call is one run of one node. It is used by one goroutine.
type Call struct {
	Ctx    context.Context
	Node   *graph.Node
	Inputs []tensor.Value // nil for an omitted input
	// Out returns compact host storage of exactly that type for tensor output i, once its shape is known. Where it is nil,
	// or returns nil, results are allocated.
	Out      func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error)
	MaxBytes int // bound of one result in bytes; 0 means DefaultMaxBytes
	// Reserve, where it is not nil, counts what the kernel works in and its results, before they are made, and with a negative
	// number when the call is over. Its error ends the call.
	Reserve func(bytes int64) error

	results []tensor.Value
	version int
	spent   int // element operations since the context was polled
	taken   int64
	kept    *sync.Map // see keep; nil outside of executables
}

// Evaluate runs one node on host values and returns one value per output of the node, nil where the output is omitted.
// Results share no storage with operands. Errors are *Error, *backend.RangeError for data that is out of range, or the context's.
func Evaluate(ctx context.Context, n *graph.Node, inputs []tensor.Value) ([]tensor.Value, error) {
	return Run(ctx, n, inputs, nil)
}

// Run is Evaluate with storage for tensor results provided by out; see Call.Out.
func Run(ctx context.Context, n *graph.Node, inputs []tensor.Value,
	out func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error)) ([]tensor.Value, error) {
	c := Call{Ctx: ctx, Node: n, Inputs: inputs, Out: out}
	return c.Run()
}

// Supports returns nil where the node has a kernel, and otherwise a *property.Reason that says what is missing: the
// operator, its version, or an element type that the operator does not admit.
func Supports(n *graph.Node) error {
	k, ok := table[opKey{n.Op.Domain, n.Op.Name}]
	if !ok && n.Schema != nil && (n.Schema.Evaluator != nil || microsoft.Waits(n)) {
		return nil
	}
	if !ok {
		return property.Because(property.Unsupported, "no reference kernel for %v", n.Op)
	}
	if v := version(n); v < k.since {
		return property.Because(property.Version, "%v since %d; the kernel begins with version %d", n.Op, v, k.since)
	}
	if len(n.Captures) > 0 {
		return property.Because(property.Unsupported, "%v captures values; a reference kernel's regions see only their inputs", n.Op)
	}
	for _, r := range n.Regions {
		for inner := range r.Graph.Nodes() {
			if err := Supports(inner); err != nil {
				return err
			}
		}
	}
	if n.Schema == nil {
		return nil
	}
	if v := n.Input(0); v != nil && v.Type.IsTensor() && onlyNumbers(n) && !(v.Type.DType.IsFloat() || v.Type.DType.IsInt()) &&
		v.Type.DType != tensor.Invalid {
		return property.Because(property.DTypeReason, "the reference kernel of %v does not take %v", n.Op, v.Type.DType)
	}
	for i := range n.Schema.Inputs {
		v := n.Input(i)
		if v == nil || !v.Type.IsTensor() || v.Type.DType == tensor.Invalid {
			continue
		}
		if !n.Schema.Admits(i, v.Type.DType) {
			return property.Because(property.DTypeReason, "%v since %d, input %s: %v is not admitted", n.Op, n.Op.Since, n.Schema.Inputs[i].Name,
				v.Type.DType)
		}
	}
	return nil
}

// onlyNumbers reports whether the kernel computes with input 0 although the operator admits types that are no numbers.
func onlyNumbers(n *graph.Node) bool {
	return n.Is("Col2Im", "GridSample") || n.Is("Resize", "Upsample") && n.Str("mode", "nearest") != "nearest"
}

// version returns the operator set version that decides about the behaviour of a node.
func version(n *graph.Node) int {
	if n.Op.Since > 0 {
		return n.Op.Since
	}
	for g := n.Graph(); g != nil; g = g.Owner().Graph() {
		if v, ok := g.Opsets[n.Op.Domain]; ok {
			return v
		}
		if g.Owner() == nil {
			break
		}
	}
	return 1 << 30
}

type fault struct{ err error }

// Run runs the node; see Evaluate.
func (c *Call) Run() (results []tensor.Value, err error) {
	k, ok := table[opKey{c.Node.Op.Domain, c.Node.Op.Name}]
	c.version = version(c.Node)
	if s := c.Node.Schema; !ok && s != nil && s.Evaluator != nil {
		return c.external(s.Evaluator)
	}
	if !ok && microsoft.Waits(c.Node) {
		k, ok = kernel{run: expanded}, true
	}
	if !ok || c.version < k.since {
		return nil, &Error{Op: c.Node.Op, Node: c.Node.Name, Err: fmt.Errorf("%w: no kernel for version %d", tensor.ErrUnsupported,
			c.version)}
	}
	if c.Ctx == nil {
		c.Ctx = context.Background()
	}
	c.results = make([]tensor.Value, len(c.Node.Outputs))
	given := c.Inputs // some kernels pass on a part of them
	defer func() {
		if c.taken > 0 {
			_ = c.Reserve(-c.taken) // giving back does not fail
		}
		switch r := recover().(type) {
		case nil:
		case fault:
			results, err = nil, r.err
		default:
			if results, err = nil, c.checkOperands(given); err == nil {
				err = &Error{Op: c.Node.Op, Node: c.Node.Name, Err: fmt.Errorf("%w: %v", ErrKernel, r)}
			}
		}
		if err != nil {
			results = nil
		}
	}()
	if err := c.Ctx.Err(); err != nil {
		return nil, err
	}
	k.run(c)
	return c.results, c.checkOperands(given)
}

// external runs a node whose operator brings a kernel. What that makes is counted when it is there.
func (c *Call) external(e graph.Evaluator) ([]tensor.Value, error) {
	if c.Ctx == nil {
		c.Ctx = context.Background()
	}
	var placed []*tensor.Tensor
	results, err := evaluate(e, c, func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
		if c.Out == nil || !c.wants(i) {
			return nil, nil
		}
		t, err := c.Out(i, dt, shape)
		if t != nil {
			placed = append(placed, t)
		}
		return t, err
	})
	if err != nil {
		return nil, &Error{Op: c.Node.Op, Node: c.Node.Name, Err: err}
	}
	for _, v := range results {
		t, ok := v.(*tensor.Tensor)
		if !ok || c.Reserve == nil || slices.Contains(placed, t) {
			continue
		}
		if err := c.Reserve(int64(t.NumBytes())); err != nil {
			return nil, fmt.Errorf("%v %q: %w", c.Node.Op, c.Node.Label(), err)
		}
		defer func() { _ = c.Reserve(-int64(t.NumBytes())) }() // giving back does not fail
	}
	return results, nil
}

// evaluate runs the node with the kernel that its operator brings, which makes results where out says if it can.
func evaluate(e graph.Evaluator, c *Call, out func(i int, dt tensor.DType, shape []int) (*tensor.Tensor, error)) ([]tensor.Value, error) {
	if p, ok := e.(graph.Placer); ok {
		return p.EvalInto(c.Ctx, c.Node, c.Inputs, out)
	}
	return e.Eval(c.Ctx, c.Node, c.Inputs)
}

// fail ends the kernel with an error about a port or attribute.
func (c *Call) fail(port string, cause error, format string, args ...any) {
	err := fmt.Errorf("%w: "+format, append([]any{cause}, args...)...)
	panic(fault{&Error{Op: c.Node.Op, Node: c.Node.Name, Port: port, Err: err}})
}

// outOfRange ends the kernel with a *backend.RangeError about a number in input i, of which [low, high] are admitted.
func (c *Call) outOfRange(i int, value, low, high int64) {
	panic(fault{backend.OutOfRange(c.Node, i, value, low, high)})
}

// check ends the kernel where err is not nil.
func (c *Call) check(port string, err error) {
	if err != nil {
		panic(fault{&Error{Op: c.Node.Op, Node: c.Node.Name, Port: port, Err: err}})
	}
}

// require ends the kernel with ErrShape where ok is false.
func (c *Call) require(ok bool, port, format string, args ...any) {
	if !ok {
		c.fail(port, tensor.ErrShape, format, args...)
	}
}

// pollEvery is the work, in element operations, between two looks at the context: about a millisecond.
const pollEvery = 1 << 19

// spend accounts for n element operations, and for the step of the loop that did them, and ends the kernel soon after the
// context has ended.
func (c *Call) spend(n int) {
	if c.spent += n + 4; c.spent >= pollEvery {
		c.spent = 0
		if err := c.Ctx.Err(); err != nil {
			panic(fault{err})
		}
	}
}

// keep returns what is made of the attributes of a call's node, which calls of one executable share.
func keep[T any](c *Call, make func() (T, error)) (T, error) {
	if c.kept != nil {
		if v, ok := c.kept.Load(c.Node); ok {
			if v, ok := v.(T); ok {
				return v, nil
			}
		}
	}
	v, err := make()
	if err == nil && c.kept != nil {
		c.kept.Store(c.Node, v)
	}
	return v, err
}

// prepared is keep for what fails by panics of this package alone.
func prepared[T any](c *Call, make func() T) T {
	v, _ := keep(c, func() (T, error) { return make(), nil })
	return v
}

func (c *Call) maxBytes() int {
	if c.MaxBytes > 0 {
		return c.MaxBytes
	}
	return DefaultMaxBytes
}

// count returns the number of elements of a shape that is to be computed, with size bytes each.
func (c *Call) count(port string, shape []int, size int) int {
	n, err := tensor.NumElements(shape)
	c.check(port, err)
	if n > c.maxBytes()/max(size, 1) {
		c.fail(port, tensor.ErrTooLarge, "%v elements of %d bytes are more than %d bytes", shape, size, c.maxBytes())
	}
	if n == 0 {
		c.boundEmpty(port, shape)
	}
	return n
}

// reserve is count for what is allocated at once.
func (c *Call) reserve(port string, shape []int, size int) int {
	n := c.count(port, shape, size)
	if bytes := int64(n) * int64(size); c.Reserve != nil && bytes > 0 {
		if err := c.Reserve(bytes); err != nil {
			panic(fault{fmt.Errorf("%v %q: %w", c.Node.Op, c.Node.Label(), err)})
		}
		c.taken += bytes
	}
	return n
}

// boundEmpty ends the kernel where the other dims of an empty shape are so large that loops over them would not end.
func (c *Call) boundEmpty(port string, shape []int) {
	n := 1
	for _, d := range shape {
		if d > c.maxBytes()/n {
			c.fail(port, tensor.ErrTooLarge, "dims of the empty %v come to more than %d", shape, c.maxBytes())
		}
		n *= max(d, 1)
	}
}

// wants reports whether output i is used at all.
func (c *Call) wants(i int) bool { return c.Node.Output(i) != nil }

// portName returns the name of input i.
func (c *Call) portName(i int) string {
	if s := c.Node.Schema; s != nil && len(s.Inputs) > 0 {
		if i < len(s.Inputs) {
			return "input " + s.Inputs[i].Name
		}
		if last := s.Inputs[len(s.Inputs)-1]; last.Variadic {
			return fmt.Sprintf("input %s[%d]", last.Name, i-len(s.Inputs)+1)
		}
	}
	return fmt.Sprintf("input %d", i)
}

// value returns input i, nil where it is omitted.
func (c *Call) value(i int) tensor.Value {
	if i >= len(c.Inputs) {
		return nil
	}
	switch v := c.Inputs[i].(type) {
	case *tensor.Tensor:
		if v == nil {
			return nil
		}
	}
	return c.Inputs[i]
}

// has reports whether input i is present.
func (c *Call) has(i int) bool { return c.value(i) != nil }

// optional returns tensor input i, compact and checked, or nil where it is omitted.
func (c *Call) optional(i int) *tensor.Tensor {
	v := c.value(i)
	if v == nil {
		return nil
	}
	t, ok := v.(*tensor.Tensor)
	if !ok {
		c.fail(c.portName(i), tensor.ErrDType, "a tensor is expected, found %T", v)
	}
	if err := t.Check(); err != nil {
		c.check(c.portName(i), err)
	}
	if t.Len() == 0 {
		c.boundEmpty(c.portName(i), t.Shape)
	}
	if !t.Device.IsHost() {
		c.fail(c.portName(i), tensor.ErrNotHost, "%v", t.Device)
	}
	if !t.IsCompact() {
		compact, err := t.Clone()
		c.check(c.portName(i), err)
		return compact
	}
	return t
}

// input returns tensor input i, which must be present.
func (c *Call) input(i int) *tensor.Tensor {
	t := c.optional(i)
	if t == nil {
		c.fail(c.portName(i), tensor.ErrShape, "the input is missing")
	}
	return t
}

// result returns zeroed storage for output i. Where the output is omitted the storage is thrown away.
func (c *Call) result(i int, dt tensor.DType, shape []int) *tensor.Tensor {
	port := ""
	if s := c.Node.Schema; s != nil && i < len(s.Outputs) {
		port = "output " + s.Outputs[i].Name
	} else {
		port = fmt.Sprintf("output %d", i)
	}
	size := dt.Size()
	if dt == tensor.String {
		size = 16
	}
	c.count(port, shape, size)
	var t *tensor.Tensor
	if c.Out != nil && c.wants(i) {
		planned, err := c.Out(i, dt, shape)
		c.check(port, err)
		if planned != nil {
			c.check(port, planned.Check())
			if planned.DType != dt || !sameShape(planned.Shape, shape) || !planned.IsCompact() || !planned.Device.IsHost() {
				c.fail(port, tensor.ErrShape, "storage of %v is planned for %v%v", planned, dt, shape)
			}
			clear(planned.Bytes())
			t = planned
		}
	}
	if t == nil {
		c.reserve(port, shape, size)
		fresh, err := tensor.New(dt, shape...)
		c.check(port, err)
		t = fresh
	}
	c.set(i, t)
	return t
}

// set stores a value as output i.
func (c *Call) set(i int, v tensor.Value) {
	if i < len(c.results) && c.wants(i) {
		c.results[i] = v
	}
}

func sameShape(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
