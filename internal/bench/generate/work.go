package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/paired"
)

// model is one that a worker runs.
type model struct {
	inputs, outputs []carve.Port
	session         *carve.Session
	cache           map[string]*tensor.Tensor // by input and by output
	shared          bool                      // caches are of all rows there will be
}

func (b *bench) work(ctx context.Context, path string) error {
	file, err := carve.Open(ctx, path)
	if err != nil {
		return err
	}
	defer file.Close()
	o := carve.Options{Threads: b.threads}
	for name := range strings.SplitSeq(b.backend, ",") {
		o.Backends = append(o.Backends, backend.Config{Name: name})
	}
	p, err := carve.Compile(ctx, file, &o)
	if err != nil {
		return err
	}
	pairs := map[string]string{}
	for _, in := range p.Inputs() {
		for _, out := range p.Outputs() {
			if strings.HasPrefix(in.Name, "past") && strings.HasPrefix(out.Name, "present") && tail(in.Name) == tail(out.Name) {
				pairs[in.Name] = out.Name
			}
		}
	}
	if err := p.Close(); err != nil {
		return err
	}
	o.InPlace = pairs
	if p, err = carve.Compile(ctx, file, &o); err != nil {
		return err
	}
	defer p.Close()
	m := &model{inputs: p.Inputs(), outputs: p.Outputs()}
	if m.session, err = p.NewSession(); err != nil {
		return err
	}
	defer m.session.Close()
	var s sample
	if len(pairs) == 0 {
		err = b.encode(ctx, m, &s)
	} else {
		m.shared = b.head > 0 && !b.growing || slices.ContainsFunc(m.inputs, func(in carve.Port) bool { return in.Name == "seqlens_k" })
		err = b.decodings(ctx, m, pairs, &s)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// tail is what the names of a cache's input and output have in common: past_key_values.0.key and present.0.key, past_key_0 and present_key_0.
func tail(name string) string {
	for _, prefix := range []string{"past_key_values", "past", "present"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return rest
		}
	}
	return name
}

// encode runs the lengths, the first time and then more often.
func (b *bench) encode(ctx context.Context, m *model, s *sample) error {
	var steady []float64
	for pass := range 1 + b.run {
		start := time.Now()
		for _, n := range b.sentences() {
			feeds := map[string]tensor.Value{}
			for _, in := range m.inputs {
				feeds[in.Name] = feed(in, 0, upTo(n))
			}
			if _, err := m.session.Run(ctx, feeds); err != nil {
				return err
			}
		}
		took := float64(time.Since(start)) / 1e6
		if pass == 0 {
			s.First = took
		} else {
			steady = append(steady, took)
		}
	}
	s.Steady = paired.Median(steady)
	return nil
}

func upTo(n int) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(i + 1)
	}
	return ids
}

// feed returns an input for tokens behind past ones.
func feed(in carve.Port, past int, ids []int64) *tensor.Tensor {
	rows := len(ids)
	numbers, shape := ids, []int{1, rows}
	switch {
	case strings.Contains(in.Name, "position"):
		numbers = make([]int64, rows)
		for i := range numbers {
			numbers[i] = int64(past + i)
		}
	case in.Name == "seqlens_k":
		numbers, shape = []int64{int64(past + rows - 1)}, []int{1}
	case in.Name == "total_sequence_length":
		numbers, shape = []int64{int64(past + rows)}, make([]int, len(in.Type.Shape))
		for i := range shape {
			shape[i] = 1
		}
	case strings.Contains(in.Name, "mask") && in.Type.DType == tensor.Float32:
		x := make([]float32, rows*(past+rows))
		for i := range x {
			if i%(past+rows) > past+i/(past+rows) {
				x[i] = float32(math.Inf(-1))
			}
		}
		return tensor.From(x, 1, 1, rows, past+rows)
	case strings.Contains(in.Name, "mask"):
		numbers, shape = make([]int64, past+rows), []int{1, past + rows}
		for i := range numbers {
			numbers[i] = 1
		}
	case strings.Contains(in.Name, "type"):
		numbers = make([]int64, rows)
	}
	if in.Type.DType == tensor.Int32 {
		x := make([]int32, len(numbers))
		for i, n := range numbers {
			x[i] = int32(n)
		}
		return tensor.From(x, shape...)
	}
	return tensor.From(numbers, shape...)
}

func (b *bench) decodings(ctx context.Context, m *model, pairs map[string]string, s *sample) error {
	room := b.prompt + b.tokens + 1
	m.cache = map[string]*tensor.Tensor{}
	for _, in := range m.inputs {
		out, ok := pairs[in.Name]
		if !ok {
			continue
		}
		dims, err := in.Type.Shape.Eval(graph.Bindings{}, nil)
		if err != nil {
			dims = []int{1, number(in.Type.Shape[1]), room, max(number(in.Type.Shape[3]), b.head)}
		}
		t, err := tensor.New(in.Type.DType, dims...)
		if err != nil {
			return err
		}
		m.cache[in.Name], m.cache[out] = t, t
	}
	var steady, first []float64
	for range b.run {
		all, prompt, tokens, err := b.decode(ctx, m)
		if err != nil {
			return err
		}
		steady, first, s.Tokens = append(steady, all/float64(b.tokens)), append(first, prompt), tokens
	}
	s.Steady, s.First = paired.Median(steady), paired.Median(first)
	return nil
}

func number(d graph.Dim) int {
	n, _ := d.Const()
	return int(n)
}

// decode returns the milliseconds of all tokens, and of the prompt.
func (b *bench) decode(ctx context.Context, m *model) (steady, first float64, tokens []int, err error) {
	ids, past := upTo(b.prompt), 0
	for i := range b.tokens + 1 {
		start := time.Now()
		next, err := m.step(ctx, past, ids)
		if err != nil {
			return 0, 0, nil, err
		}
		past += len(ids)
		ids, tokens = []int64{int64(next)}, append(tokens, next)
		if took := float64(time.Since(start)) / 1e6; i == 0 {
			first = took
		} else {
			steady += took
		}
	}
	return steady, first, tokens, nil
}

func (m *model) step(ctx context.Context, past int, ids []int64) (next int, err error) {
	var in, out []*tensor.Tensor
	var scores *tensor.Tensor
	part := func(t *tensor.Tensor, rows int) (*tensor.Tensor, error) {
		if m.shared {
			return t, nil
		}
		return t.Slice(2, 0, rows)
	}
	for _, port := range m.inputs {
		t := m.cache[port.Name]
		if t == nil {
			t = feed(port, past, ids)
		} else if t, err = part(t, past); err != nil {
			return 0, err
		}
		in = append(in, t)
	}
	words := 0
	for i, port := range m.outputs {
		t := m.cache[port.Name]
		switch {
		case i == 0:
			words = number(port.Type.Shape[2])
			if t, err = tensor.New(port.Type.DType, 1, len(ids), words); err != nil {
				return 0, err
			}
			scores = t
		case t == nil:
			return 0, fmt.Errorf("output %s is no cache", port.Name)
		default:
			if t, err = part(t, past+len(ids)); err != nil {
				return 0, err
			}
		}
		out = append(out, t)
	}
	if err := m.session.RunInto(ctx, in, out); err != nil {
		return 0, err
	}
	last, err := scores.Slice(1, len(ids)-1, len(ids))
	if err != nil {
		return 0, err
	}
	list := make([]float64, words)
	if err := tensor.Decode(list, last); err != nil {
		return 0, err
	}
	return slices.Index(list, slices.Max(list)), nil
}
