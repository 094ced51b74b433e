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
	most     int64 // bytes of all states together
	now      func() time.Time

	mu    sync.Mutex // guards what follows, and users, used and bytes of those that are live
	live  map[oip.SequenceID]*sequence
	bytes int64 // of the states of all
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
	bytes int64
	state map[string]*tensor.Tensor // by input; nil before the first request, and behind the last
}

// The defaults of a configuration that leaves them open.
const (
	defaultIdle      = time.Second // Triton's
	defaultSequences = 1024
)

// newSequences reads sequence_batching; nil where it is absent. An initial state has at most limit bytes, and so have the states of all sequences
// together.
func newSequences(c *Config, fsys fs.FS, dir string, inputs, outputs []Port, limit int64) (*Sequences, error) {
	m := sub(c.message, "sequence_batching")
	if m == nil {
		return nil, nil
	}
	s := &Sequences{idle: micros(m, "max_sequence_idle_microseconds"), limit: defaultSequences, most: limit, now: time.Now, live: map[oip.SequenceID]*sequence{}}
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
	if err == nil && !in.Fits(shape) {
		err = fmt.Errorf("the initial one of %q has shape %v, the model's input %v", in.Name, shape, in.Shape)
	}
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
	of  *sequence
	p   oip.Parameters
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
	select {
	case <-q.turn:
	case <-ctx.Done():
		s.unclaim(p.Sequence, q)
		return nil, ctx.Err()
	}
	if err := s.give(p, q, inputs); err != nil {
		q.turn <- struct{}{}
		s.unclaim(p.Sequence, q)
		return nil, err
	}
	return &Turn{s, q, p}, nil
}

// give adds the states and controls of a request whose turn it is. While the request waited its sequence may have ended, or not begun after all.
func (s *Sequences) give(p oip.Parameters, q *sequence, inputs map[string]tensor.Value) error {
	if !p.Start && q.state == nil {
		return s.unknown()
	}
	for _, x := range s.states {
		inputs[x.input] = x.first
		if v := q.state[x.input]; v != nil && !p.Start {
			inputs[x.input] = v
		}
	}
	for _, c := range s.controls {
		v, err := c.value(p)
		if err != nil {
			return err
		}
		inputs[c.name] = v
	}
	return nil
}

// unknown is the error of a request that goes on with a sequence that there is not.
func (s *Sequences) unknown() error {
	return oip.Errorf(oip.InvalidArgument, "the first request of a sequence must have sequence_start; this one is unknown, has ended, or was idle for more than %v", s.idle)
}

// claim returns the sequence of a request, a new one where it starts.
func (s *Sequences) claim(p oip.Parameters) (*sequence, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	q := s.live[p.Sequence]
	if q != nil && q.users == 0 && now.Sub(q.used) > s.idle {
		s.forget(p.Sequence)
		q = nil
	}
	if q == nil {
		if !p.Start {
			return nil, s.unknown()
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
			s.forget(id)
		}
	}
	return len(s.live) < n
}

// forget forgets a sequence. It is called with mu held.
func (s *Sequences) forget(id oip.SequenceID) {
	s.bytes -= s.live[id].bytes
	delete(s.live, id)
}

// Bytes returns how many bytes the states of all sequences have.
func (s *Sequences) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
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

// unclaim ends a request's part in a sequence, which is forgotten where it has no states and nobody waits to begin it.
func (s *Sequences) unclaim(id oip.SequenceID, q *sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.users--
	q.used = s.now()
	if q.users == 0 && q.state == nil && s.live[id] == q {
		s.forget(id)
	}
}

func (s *Sequences) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.live)
	s.bytes = 0
}

// End keeps the states among a run's outputs, which it takes out of them, for the next request, or forgets them with the sequence's last
// one. Where the run has failed, with nil, they stay as they were, but for a request that was to begin the sequence anew. The error is Exhausted
// where the states of all sequences would take too much memory; the request counts as failed then.
func (t *Turn) End(outputs map[string]tensor.Value) (err error) {
	s, failed := t.all, outputs == nil
	next, size := s.take(outputs)
	if !failed && !t.p.End {
		err = s.keep(t.of, next, size)
		failed = err != nil
	}
	if failed && t.p.Start || !failed && t.p.End {
		_ = s.keep(t.of, nil, 0) // which takes less
	}
	t.of.turn <- struct{}{}
	s.unclaim(t.p.Sequence, t.of)
	return err
}

// take takes the states out of outputs, and returns how many bytes they have.
func (s *Sequences) take(outputs map[string]tensor.Value) (states map[string]*tensor.Tensor, size int64) {
	states = map[string]*tensor.Tensor{}
	for _, x := range s.states {
		if t, ok := outputs[x.output].(*tensor.Tensor); ok {
			states[x.input] = t
			size += oip.Memory(t.DType, t.Len())
			for _, text := range t.Strings {
				size += int64(len(text))
			}
		}
		delete(outputs, x.output)
	}
	return states, size
}

// keep gives a sequence states of so many bytes, nil for none. It is called by whose turn it is.
func (s *Sequences) keep(q *sequence, states map[string]*tensor.Tensor, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := size - q.bytes; more > 0 && s.bytes+more > s.most {
		return oip.Errorf(oip.Exhausted, "the states of %d sequences would have %d bytes, at most %d are kept", len(s.live), s.bytes+more, s.most)
	}
	s.bytes += size - q.bytes
	q.bytes, q.state = size, states
	return nil
}

// value returns the control's tensor for a request: one element.
func (c control) value(p oip.Parameters) (*tensor.Tensor, error) {
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
		if p.Start {
			v = c.on
		}
	case "CONTROL_SEQUENCE_END":
		if p.End {
			v = c.on
		}
	}
	return t, tensor.Encode(t, []float64{v})
}
