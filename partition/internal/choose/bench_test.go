package choose_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/carve-dev/carve/partition/internal/choose"
	"github.com/carve-dev/carve/partition/internal/dagtest"
)

// placed returns the problem of placing a graph on three backends, each of which has a state of its own: operators of ten
// microseconds, one of which is the fastest by chance; conversions of about as much, by way of the first state between the
// others.
func placed(d *dagtest.Graph, seed uint64) *choose.Problem {
	const backends = 3
	rng := rand.New(rand.NewPCG(seed, 3))
	p := &choose.Problem{Launch: []int64{200, 500, 100}, Vars: make([]choose.Var, d.Nodes), Values: make([]choose.Value, d.Nodes)}
	own := []int32{0, 1, 2}
	alts := make([]choose.Alt, backends*d.Nodes)
	for v := range p.Vars {
		for k := range int32(backends) {
			alts[v*backends+int(k)] = choose.Alt{Cost: 2000 + rng.Int64N(16000), Color: k, Claim: choose.None}
		}
		p.Vars[v] = choose.Var{Alts: alts[v*backends : (v+1)*backends], Joins: choose.None}
		p.Values[v] = choose.Value{Maker: int32(v), Made: own}
	}
	for e, u := range d.From {
		v := d.To[e]
		p.Values[u].Uses = append(p.Values[u].Uses, choose.Use{Var: v, Wants: own})
		if p.Vars[v].Joins < 0 {
			p.Vars[v].Joins = u
		}
	}
	bytes := make([]int64, d.Nodes)
	for i := range bytes {
		bytes[i] = rng.Int64N(10000)
	}
	p.Hops = func(list []choose.Hop, value int, from, to int32) ([]choose.Hop, bool) {
		if from != 0 && to != 0 {
			list = append(list, choose.Hop{ID: from * backends, Cost: 500 + bytes[value]})
			from = 0
		}
		return append(list, choose.Hop{ID: from*backends + to, Cost: 500 + bytes[value]}), true
	}
	return p
}

// BenchmarkSolve measures the choice by itself, without candidates, groups and reports. A hundred thousand variables are meant to
// take less than three seconds, a million less than forty and 4 GiB.
func BenchmarkSolve(b *testing.B) {
	graphs := []struct {
		name string
		make func(n int) *dagtest.Graph
	}{
		{"chain", dagtest.Chain},
		{"random", func(n int) *dagtest.Graph { return dagtest.Random(n, 20, 1) }},
		{"resnet50", dagtest.ResNet50},
	}
	for _, g := range graphs {
		for _, nodes := range []int{1000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("graph=%s/nodes=%d", g.name, nodes), func(b *testing.B) {
				p := placed(g.make(nodes), 1)
				b.ReportAllocs()
				for b.Loop() {
					s, err := choose.Solve(context.Background(), p, nil)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(100*gap(s), "%gap")
					b.ReportMetric(float64(s.Vars), "searched")
				}
			})
		}
	}
}
