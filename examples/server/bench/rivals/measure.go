package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// question is one request in both forms.
type question struct {
	json []byte
	wire []byte // a ModelInferRequest
}

// newQuestion returns a request of random numbers for a float32 input.
func newQuestion(name, shape string) (*question, error) {
	var dims []int
	n := 1
	for text := range strings.SplitSeq(shape, ",") {
		d, err := strconv.Atoi(text)
		if err != nil || d <= 0 || d > 1<<20 || n > 1<<24 {
			return nil, fmt.Errorf("shape %q", shape)
		}
		dims, n = append(dims, d), n*d
	}
	r := rand.New(rand.NewPCG(1, 2))
	values, raw := make([]float32, n), make([]byte, 0, 4*n)
	for i := range values {
		values[i] = float32(r.IntN(1000)) / 1000
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(values[i]))
	}
	body, err := json.Marshal(map[string]any{"id": "1", "inputs": []any{map[string]any{"name": name, "shape": dims, "datatype": "FP32", "data": values}}})
	if err != nil {
		return nil, err
	}
	field := func(b []byte, number protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
	}
	var packed []byte
	for _, d := range dims {
		packed = protowire.AppendVarint(packed, uint64(d))
	}
	in := field(field(field(nil, 1, []byte(name)), 2, []byte("FP32")), 3, packed)
	wire := field(field(field(field(nil, 1, []byte(modelName)), 3, []byte("1")), 5, in), 7, raw)
	return &question{body, wire}, nil
}

// agree compares the answers of all servers with those of the first, to 1e-4.
func agree(servers []*server, q *question) error {
	var first []float64
	for _, s := range servers {
		b, err := answerOverHTTP(s, q)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		var a struct {
			Outputs []struct{ Data []float64 }
		}
		if err := json.Unmarshal(b, &a); err != nil || len(a.Outputs) == 0 {
			return fmt.Errorf("%s: the answer is %.200s: %w", s.name, b, err)
		}
		have := a.Outputs[0].Data
		if first == nil {
			first = have
		}
		for i := range first {
			if len(have) != len(first) || math.Abs(have[i]-first[i]) > 1e-4 {
				return fmt.Errorf("%s answers %v, %s %v", s.name, have, servers[0].name, first)
			}
		}
	}
	return nil
}

// way is how servers are asked.
type way struct {
	name    string
	callers int
	ask     func(*server, *question) error
}

// result is what one server did in one way.
type result struct {
	times []time.Duration
	wall  time.Duration
	busy  time.Duration // of the server's processors
}

func (r *result) rate() float64 { return float64(len(r.times)) / r.wall.Seconds() }

func (r *result) percentile(p int) time.Duration {
	slices.Sort(r.times)
	return r.times[min(len(r.times)*p/100, len(r.times)-1)].Round(time.Microsecond)
}

func (r *result) processor() time.Duration {
	return (r.busy / time.Duration(len(r.times))).Round(time.Microsecond)
}

// measure asks the servers by turns, so that whatever else the machine does falls on all alike.
func measure(servers []*server, ways []way, q *question, length time.Duration) ([][]*result, error) {
	const rounds = 5
	out := make([][]*result, len(ways))
	for i := range ways {
		for range servers {
			out[i] = append(out[i], &result{})
		}
	}
	for round := range rounds + 1 { // the first is for warming up
		for i, w := range ways {
			for k, s := range servers {
				r := &result{}
				if round > 0 {
					r = out[i][k]
				}
				if err := r.add(s, w, q, length/rounds); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", s.name, w.name, err)
				}
			}
		}
	}
	return out, nil
}

// add asks a server for so long.
func (r *result) add(s *server, w way, q *question, length time.Duration) error {
	var group sync.WaitGroup
	times, failed := make([][]time.Duration, w.callers), make([]error, w.callers)
	begin, busy := time.Now(), s.processor()
	for i := range w.callers {
		group.Go(func() {
			for time.Since(begin) < length {
				at := time.Now()
				if failed[i] = w.ask(s, q); failed[i] != nil {
					return
				}
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	group.Wait()
	r.wall += time.Since(begin)
	r.busy += s.processor() - busy
	for i := range w.callers {
		if failed[i] != nil {
			return failed[i]
		}
		r.times = append(r.times, times[i]...)
	}
	return nil
}
