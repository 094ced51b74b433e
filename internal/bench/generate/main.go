package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	_ "github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph/tensor"
)

func main() {
	rounds := flag.Int("rounds", 10, "")
	threads := flag.Int("threads", 1, "")
	prof := flag.String("cpuprofile", "", "")
	flag.Parse()
	ctx := context.Background()
	m, err := carve.Open(ctx, flag.Arg(0))
	check(err)
	p, err := carve.Compile(ctx, m, &carve.Options{Threads: *threads})
	check(err)
	_ = 0
	s, err := p.NewSession()
	check(err)
	if *prof != "" {
		f, _ := os.Create(*prof)
		pprof.StartCPUProfile(f)
		defer pprof.StopCPUProfile()
	}
	best, pre := time.Hour, time.Hour
	var out []int
	for range *rounds {
		var a, b time.Duration
		a, b, out = gen(ctx, p, s)
		best, pre = min(best, a), min(pre, b)
	}
	fmt.Printf("carve ms/token %.3f prefill %.3f %v\n", float64(best)/64e6, float64(pre)/1e6, out[:10])
}

func gen(ctx context.Context, p *carve.Program, s *carve.Session) (time.Duration, time.Duration, []int) {
	toks := []int64{1, 2, 3, 4, 5, 6, 7, 8}
	P := 0
	gqa := false
	kv := map[string]tensor.Value{}
	for _, in := range p.Inputs() {
		if in.Name == "seqlens_k" {
			gqa = true
		}
	}
	for _, in := range p.Inputs() {
		if strings.HasPrefix(in.Name, "past") {
			h, _ := in.Type.Shape[1].Const()
			d, _ := in.Type.Shape[3].Const()
			n := 0
			if gqa {
				n = 128
			}
			t, err := tensor.New(tensor.Float32, 1, int(h), n, int(d))
			check(err)
			kv[in.Name] = t
		}
	}
	var out []int
	var pre time.Duration
	var start time.Time
	begin := time.Now()
	for i := range 65 {
		if i == 1 {
			start = time.Now()
			pre = start.Sub(begin)
		}
		S := len(toks)
		in := map[string]tensor.Value{}
		in["input_ids"] = tensor.From(toks, 1, S)
		pos := make([]int64, S)
		for k := range pos {
			pos[k] = int64(P + k)
		}
		in["position_ids"] = tensor.From(pos, 1, S)
		if gqa {
			in["seqlens_k"] = tensor.From([]int32{int32(P + S - 1)}, 1)
			in["total_sequence_length"] = tensor.From([]int32{int32(P + S)})
		} else {
			mask := make([]int64, P+S)
			for k := range mask {
				mask[k] = 1
			}
			in["attention_mask"] = tensor.From(mask, 1, P+S)
		}
		for k, v := range kv {
			in[k] = v
		}
		o, err := s.Run(ctx, in)
		check(err)
		for k, v := range o {
			if strings.HasPrefix(k, "present") {
				kv[strings.Replace(k, "present", "past_key_values", 1)] = v
			}
		}
		t := o["logits"].(*tensor.Tensor)
		x := tensor.Of[float32](t)
		v := t.Shape[2]
		x = x[len(x)-v:]
		best := 0
		for j := range x {
			if x[j] > x[best] {
				best = j
			}
		}
		out = append(out, best)
		P += S
		toks = []int64{int64(best)}
	}
	return time.Since(start), pre, out
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
