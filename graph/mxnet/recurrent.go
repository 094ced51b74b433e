package mxnet

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

func recurrentOperators() map[string]operator {
	table := map[string]operator{}
	named(table, operator{do: recurrent}, "RNN", "_npx_rnn")
	return table
}

// cell is what MXNet's and ONNX's recurrent layers differ in.
type cell struct {
	name  string
	gates []int // for each of ONNX's gates, its place among MXNet's
	act   string
}

// cells by the attribute mode. MXNet's order is i, f, g, o for LSTM and r, z, n for GRU; ONNX's i, o, f, c and z, r, h.
var cells = map[string]cell{
	"lstm": {"LSTM", []int{0, 3, 1, 2}, ""}, "gru": {"GRU", []int{1, 0, 2}, ""},
	"rnn_tanh": {"RNN", []int{0}, "Tanh"}, "rnn_relu": {"RNN", []int{0}, "Relu"},
}

// vectorPart cuts pieces out of the one vector of parameters.
type vectorPart struct {
	o  *op
	v  *graph.Value
	at int
}

// take returns the next gates·rows·columns elements as [1, gates·rows, columns], or [1, gates·rows] where columns is 0, with the
// gates in that order.
func (p *vectorPart) take(order []int, rows, columns int) *graph.Value {
	o := p.o
	size := rows * max(columns, 1)
	begin := p.at
	p.at += size * len(order)
	shape := []extent{fixed(1), fixed(rows * len(order))}
	if columns > 0 {
		shape = append(shape, fixed(columns))
	}
	if t := p.v.Const; t != nil {
		o.require(len(t.Shape) == 1 && p.at <= t.Len(), "parameters are %v, more than %d are needed", p.v.Type, p.at-1)
		bytes := t.DType.Bytes(size)
		o.made(bytes * len(order))
		out, err := tensor.New(t.DType, size*len(order))
		if err != nil {
			o.fail(ErrTooLarge, "%v", err)
		}
		data := t.Bytes()
		for i, g := range order {
			copy(out.Data[i*bytes:(i+1)*bytes], data[t.DType.Bytes(begin+g*size):])
		}
		return o.view(&graph.Value{Const: out, Type: graph.TypeOf(out)}, shape)
	}
	parts := make([]*graph.Value, len(order))
	for i, g := range order {
		parts[i] = o.slice(p.v, 0, begin+g*size, begin+(g+1)*size)
	}
	return o.reshape(o.concat(0, parts...), shape...)
}

// recurrent is layers of LSTM, GRU or plain cells over [T, N, I], with all parameters in one vector: for every layer and
// direction the weights of the input and of the state, then, in the same order, the biases of both.
func recurrent(o *op) []*graph.Value {
	mode := o.text("mode", "", "lstm", "gru", "rnn_tanh", "rnn_relu")
	c := cells[mode]
	hidden, layers := o.required("state_size"), o.required("num_layers")
	dirs := 1
	if o.flag("bidirectional", false) {
		dirs = 2
	}
	states := o.flag("state_outputs", false)
	lengths := o.flag("use_sequence_length", false)
	o.ignore("p")
	for _, key := range []string{"projection_size", "lstm_state_clip_min", "lstm_state_clip_max"} {
		if o.value(key) != "" {
			o.fail(ErrUnsupported, "%s", key)
		}
	}
	o.ignore("lstm_state_clip_nan")
	o.require(hidden > 0 && hidden <= 1<<20 && layers > 0 && layers <= 1<<10, "%d layers of %d", layers, hidden)
	initial := o.in[min(2, len(o.in)):]
	var seq *graph.Value
	if lengths {
		o.require(len(initial) > 0, "lengths are missing")
		seq, initial = o.cast(initial[len(initial)-1], tensor.Int32), initial[:len(initial)-1]
	}
	o.require(len(initial) <= 2 && (len(initial) == 2) == (c.name == "LSTM" && len(initial) > 0), "%d states", len(initial))
	x := o.input(0)
	o.require(o.rank(x) == 3, "rank %d", o.rank(x))
	r := &recurrence{o: o, cell: c, hidden: hidden, dirs: dirs, layers: layers, lengths: seq, initial: initial}
	r.parameters(o.input(1), o.static(x, 2))
	for l := range layers {
		x = r.layer(l, x)
	}
	out := []*graph.Value{x}
	if states {
		for _, s := range r.last[:len(r.last[1])/max(len(r.last[1]), 1)+1] { // one kind, or two
			out = append(out, o.concat(0, s...))
		}
	}
	return out
}

// recurrence is a stack of layers on the way.
type recurrence struct {
	o                    *op
	cell                 cell
	hidden, dirs, layers int
	lengths              *graph.Value
	initial              []*graph.Value
	w, r, b              []*graph.Value    // by layer: [dirs, gates·H, I], [dirs, gates·H, H], [dirs, 2·gates·H]
	last                 [2][]*graph.Value // by kind of state, then layer
}

func (r *recurrence) parameters(v *graph.Value, width int) {
	o, p := r.o, &vectorPart{o: r.o, v: v}
	in := func(l int) int {
		if l == 0 {
			return width
		}
		return r.hidden * r.dirs
	}
	for l := range r.layers {
		var w, h []*graph.Value
		for range r.dirs {
			w = append(w, p.take(r.cell.gates, r.hidden, in(l)))
			h = append(h, p.take(r.cell.gates, r.hidden, r.hidden))
		}
		r.w, r.r = append(r.w, o.concat(0, w...)), append(r.r, o.concat(0, h...))
	}
	for range r.layers {
		var b []*graph.Value
		for range r.dirs {
			b = append(b, o.concat(1, p.take(r.cell.gates, r.hidden, 0), p.take(r.cell.gates, r.hidden, 0)))
		}
		r.b = append(r.b, o.concat(0, b...))
	}
}

// layer applies layer l to x [T, N, I], and returns [T, N, dirs·H].
func (r *recurrence) layer(l int, x *graph.Value) *graph.Value {
	o := r.o
	direction := "forward"
	if r.dirs == 2 {
		direction = "bidirectional"
	}
	as := attrs(graph.IntAttr("hidden_size", int64(r.hidden)), graph.StringAttr("direction", direction))
	if r.cell.act != "" {
		as = append(as, graph.StringsAttr("activations", slices.Repeat([]string{r.cell.act}, r.dirs)...))
	}
	if r.cell.name == "GRU" {
		as = append(as, graph.IntAttr("linear_before_reset", 1))
	}
	ins := []*graph.Value{x, r.w[l], r.r[l], r.b[l], r.lengths}
	for _, s := range r.initial {
		if o.t.open[s] {
			break // zeros, as when there are none
		}
		ins = append(ins, o.slice(s, 0, l*r.dirs, (l+1)*r.dirs))
	}
	for ins[len(ins)-1] == nil {
		ins = ins[:len(ins)-1]
	}
	outs := 2
	if r.cell.name == "LSTM" {
		outs = 3
	}
	y := o.calls("", r.cell.name, outs, as, ins...)
	for i, s := range y[1:] {
		r.last[i] = append(r.last[i], s)
	}
	if r.dirs == 1 {
		return o.squeeze(y[0], 1)
	}
	d := o.dims(x)
	return o.reshape(o.transpose(y[0], 0, 2, 1, 3), d[0], d[1], fixed(r.dirs*r.hidden))
}
