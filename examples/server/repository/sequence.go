package repository

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// Sequences keep a model's state between the requests of a sequence: outputs that are inputs of the next request, an LSTM's or a
// decoder's. A configuration's sequence_batching.state names them, control_input the inputs that tell of begin and end. Requests
// of one sequence run one after the other, in the order of their arrival; those of others are not held up.
type Sequences struct {
	states   []state
	controls []control
	idle     time.Duration
	limit    int
	now      func() time.Time

	mu   sync.Mutex
	live map[oip.SequenceID]*sequence
}

// state is an output that comes back as an input.
type state struct {
	input, output string
	first         *tensor.Tensor // of a sequence's first request
}

// control is an input that the server gives.
type control struct {
	name  string
	kind  string
	dtype tensor.DType
	shape []int   // of one element
	off   float64 // the values of false and true
	on    float64
}

type sequence struct {
	turn  chan struct{} // holds one token: whoever has it runs
	users int
	used  time.Time
	state map[string]*tensor.Tensor // by input
}

// The defaults of a configuration that leaves them open.
const (
	defaultIdle      = time.Second // Triton's
	defaultSequences = 1024
)

// newSequences reads sequence_batching; nil where it is absent. An initial state has at most limit bytes.
func newSequences(c *Config, fsys fs.FS, dir string, inputs, outputs []Port, limit int64) (*Sequences, error) {
	m := sub(c.message, "sequence_batching")
	if m == nil {
		return nil, nil
	}
	s := &Sequences{idle: micros(m, "max_sequence_idle_microseconds"), limit: defaultSequences, now: time.Now, live: map[oip.SequenceID]*sequence{}}
	if s.idle == 0 {
		s.idle = defaultIdle
	}
	if o := sub(m, "oldest"); o != nil && number(o, "max_candidate_sequences") > 0 {
		s.limit = int(number(o, "max_candidate_sequences"))
	}
	for _, x := range list(m, "state") {
		if err := s.addState(x, c.MaxBatch() > 0, fsys, dir, inputs, outputs, limit); err != nil {
			return nil, err
		}
	}
	for _, x := range list(m, "control_input") {
		if err := s.addControl(x, inputs); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func portOf(list []Port, name string) *Port {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func (s *Sequences) addState(m protoreflect.Message, batched bool, fsys fs.FS, dir string, inputs, outputs []Port, limit int64) error {
	in, out := portOf(inputs, text(m, "input_name")), portOf(outputs, text(m, "output_name"))
	if in == nil || out == nil || in.DType != out.DType {
		return fmt.Errorf("%w: sequence_batching.state: the model has no input %q and output %q of one type", ErrConfig, text(m, "input_name"), text(m, "output_name"))
	}
	var dims []int64
	initial := list(m, "initial_state")
	from := m
	if len(initial) > 0 {
		from = initial[0]
	}
	l := from.Get(field(from, "dims")).List()
	for i := range l.Len() {
		dims = append(dims, max(0, l.Get(i).Int())) // what grows begins empty
	}
	if batched {
		dims = append([]int64{1}, dims...)
	}
	shape, n, err := oip.Shape(in.Name, dims, maxWarm)
	if err != nil {
		return fmt.Errorf("%w: sequence_batching.state: %w", ErrConfig, err)
	}
	if size := oip.Memory(in.DType, n); size > limit {
		return oip.Errorf(oip.Unavailable, "sequence_batching.state: the initial one of %q has %d bytes, the limit of memory is %d", in.Name, size, limit)
	}
	t, err := tensor.New(in.DType, shape...)
	if err != nil {
		return err
	}
	if len(initial) > 0 && text(initial[0], "data_file") != "" {
		raw, err := readSmall(fsys, path.Join(dir, "initial_state"), text(initial[0], "data_file"))
		if err == nil {
			err = fill(t, in.Name, raw)
		}
		if err != nil {
			return fmt.Errorf("%w: sequence_batching.state: %w", ErrConfig, err)
		}
	}
	s.states = append(s.states, state{in.Name, out.Name, t})
	return nil
}

func (s *Sequences) addControl(m protoreflect.Message, inputs []Port) error {
	p := portOf(inputs, text(m, "name"))
	if p == nil {
		return fmt.Errorf("%w: sequence_batching.control_input: the model has no input %q", ErrConfig, text(m, "name"))
	}
	for _, x := range list(m, "control") {
		c := control{name: p.Name, kind: enum(x, "kind"), dtype: p.DType, shape: []int{1}, on: 1}
		for len(c.shape) < len(p.Shape) {
			c.shape = append(c.shape, 1)
		}
		for _, name := range []string{"int32_false_true", "fp32_false_true", "bool_false_true"} {
			l := x.Get(field(x, name)).List()
			if l.Len() != 2 {
				continue
			}
			c.off, c.on = asFloat(l.Get(0)), asFloat(l.Get(1))
		}
		if p.DType == tensor.String && c.kind != "CONTROL_SEQUENCE_CORRID" {
			return fmt.Errorf("%w: sequence_batching.control_input %q: control %s of strings", ErrConfig, p.Name, c.kind)
		}
		s.controls = append(s.controls, c)
	}
	return nil
}

func asFloat(v protoreflect.Value) float64 {
	switch x := v.Interface().(type) {
	case int32:
		return float64(x)
	case float32:
		return float64(x)
	case bool:
		if x {
			return 1
		}
	}
	return 0
}

// visible returns the ports that clients see.
func (s *Sequences) visible(inputs, outputs []Port) (in, out []Port) {
	hiddenIn, hiddenOut := map[string]bool{}, map[string]bool{}
	for _, x := range s.states {
		hiddenIn[x.input], hiddenOut[x.output] = true, true
	}
	for _, x := range s.controls {
		hiddenIn[x.name] = true
	}
	return keep(inputs, hiddenIn), keep(outputs, hiddenOut)
}

func keep(list []Port, hidden map[string]bool) []Port {
	var out []Port
	for _, p := range list {
		if !hidden[p.Name] {
			out = append(out, p)
		}
	}
	return out
}

// Turn is a request's place in its sequence.
type Turn struct {
	all *Sequences
	id  oip.SequenceID
	of  *sequence
	end bool
}

// Begin waits for the turn of a request, and adds its states and controls to inputs. End the turn.
func (s *Sequences) Begin(ctx context.Context, p oip.Parameters, inputs map[string]tensor.Value) (*Turn, error) {
	if p.Sequence == (oip.SequenceID{}) {
		return nil, oip.Errorf(oip.InvalidArgument, "the model keeps states: requests must have a sequence_id that is not 0")
	}
	q, err := s.claim(p)
	if err != nil {
		return nil, err
	}
	t := &Turn{all: s, id: p.Sequence, of: q, end: p.End}
	select {
	case <-q.turn:
	case <-ctx.Done():
		s.unclaim(q)
		return nil, ctx.Err()
	}
	start := p.Start || q.state == nil
	for _, x := range s.states {
		v := x.first
		if !start && q.state[x.input] != nil {
			v = q.state[x.input]
		}
		inputs[x.input] = v
	}
	for _, c := range s.controls {
		v, err := c.value(p, start)
		if err != nil {
			q.turn <- struct{}{}
			s.unclaim(q)
			return nil, err
		}
		inputs[c.name] = v
	}
	return t, nil
}

// claim returns the sequence of a request, a new one where it starts.
func (s *Sequences) claim(p oip.Parameters) (*sequence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	q := s.live[p.Sequence]
	if q != nil && q.users == 0 && now.Sub(q.used) > s.idle {
		delete(s.live, p.Sequence)
		q = nil
	}
	if q == nil {
		if !p.Start {
			return nil, oip.Errorf(oip.InvalidArgument, "the first request of a sequence must have sequence_start; this one is unknown, has ended, or was idle for more than %v", s.idle)
		}
		if len(s.live) >= s.limit && !s.expire(now) {
			return nil, oip.Errorf(oip.Overloaded, "%d sequences are open, the most that the model keeps", len(s.live))
		}
		q = &sequence{turn: make(chan struct{}, 1)}
		q.turn <- struct{}{}
		s.live[p.Sequence] = q
	}
	q.users++
	return q, nil
}

// expire forgets sequences that were idle for too long, and reports whether there were any. It is called with mu held.
func (s *Sequences) expire(now time.Time) bool {
	n := len(s.live)
	for id, q := range s.live {
		if q.users == 0 && now.Sub(q.used) > s.idle {
			delete(s.live, id)
		}
	}
	return len(s.live) < n
}

// Expire forgets sequences that were idle for longer than their model allows.
func (s *Sequences) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(s.now())
}

// Len returns how many sequences are open.
func (s *Sequences) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

func (s *Sequences) unclaim(q *sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.users--
	q.used = s.now()
}

func (s *Sequences) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.live)
}

// End keeps the states among a run's outputs, which it takes out of them, for the next request; where the run has failed, with
// nil, the states stay as they were.
func (t *Turn) End(outputs map[string]tensor.Value) {
	if outputs != nil {
		next := map[string]*tensor.Tensor{}
		for _, x := range t.all.states {
			next[x.input], _ = outputs[x.output].(*tensor.Tensor)
			delete(outputs, x.output)
		}
		t.of.state = next
	}
	t.of.turn <- struct{}{}
	t.all.unclaim(t.of)
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	failedFirst := outputs == nil && t.of.state == nil
	if (t.end && outputs != nil || failedFirst) && t.of.users == 0 && t.all.live[t.id] == t.of {
		delete(t.all.live, t.id)
	}
}

// value returns the control's tensor for a request: one element.
func (c control) value(p oip.Parameters, start bool) (*tensor.Tensor, error) {
	t, err := tensor.New(c.dtype, c.shape...)
	if err != nil {
		return nil, err
	}
	v := c.off
	switch c.kind {
	case "CONTROL_SEQUENCE_CORRID":
		if c.dtype == tensor.String {
			t.Strings[0] = p.Sequence.Text
			return t, nil
		}
		if p.Sequence.Text != "" {
			return nil, oip.Errorf(oip.InvalidArgument, "the model wants a sequence_id that is a number")
		}
		return t, tensor.EncodeInts(t, []int64{int64(p.Sequence.Number)})
	case "CONTROL_SEQUENCE_READY":
		v = c.on
	case "CONTROL_SEQUENCE_START":
		if start {
			v = c.on
		}
	case "CONTROL_SEQUENCE_END":
		if p.End {
			v = c.on
		}
	}
	return t, tensor.Encode(t, []float64{v})
}
