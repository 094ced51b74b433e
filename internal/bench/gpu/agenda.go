package main

import (
	"context"
	"fmt"
	"slices"
)

// item is work that is done or left as a whole.
type item struct {
	name string
	rank float64 // the least first
	do   func(ctx context.Context)
}

// agenda is all work, the most valuable first: ceilings, the largest products, networks on carve at the first precision and batch, kernels, other
// precisions and batches, and then networks beside rivals, who take long to get ready.
func (r *run) agenda(ctx context.Context) []item {
	var list []item
	if r.kernels != nil {
		list = append(list, r.kernelItems(ctx)...)
	}
	if r.wants(modelPart) || len(r.rivals) > 0 {
		list = append(list, r.networkItems(ctx)...)
	}
	slices.SortStableFunc(list, func(a, b item) int {
		switch {
		case a.rank < b.rank:
			return -1
		case a.rank > b.rank:
			return 1
		}
		return 0
	})
	return list
}

// rivalPart is networks beside rivals.
const rivalPart = "rivals"

// Ranks of work.
const (
	rankCeilings     = 0
	rankReferences   = 10
	rankFirstModels  = 20
	rankProducts     = 30 // beyond the first squares
	rankRows         = 31
	rankConvolutions = 32
	rankAttention    = 33
	rankModels       = 40
	rankRivals       = 50
	rankTiles        = 90
)

func (r *run) wants(part string) bool { return slices.Contains(r.parts, part) }

// kernelItems are the measurements of kernels, as the process that does them lists them.
func (r *run) kernelItems(ctx context.Context) (list []item) {
	a, err := r.kernels.ask(ctx, r.patience, &request{Op: "tasks"})
	if err != nil {
		r.add(&row{Part: "kernels", Fault: faultOf(err)})
		return nil
	}
	for _, t := range a.Tasks {
		if !r.wants(t.Part) || len(r.precisions) > 0 && t.Part != ceilingPart && !slices.Contains(r.precisions, t.Precision) {
			continue
		}
		rank := map[string]float64{ceilingPart: rankCeilings, productPart: rankProducts, rowPart: rankRows, convolutionPart: rankConvolutions, attentionPart: rankAttention}[t.Part]
		switch {
		case t.Rank >= 100:
			rank = rankTiles
		case t.Part == productPart && t.Rank < 2:
			rank = rankCeilings + 1 + t.Rank
		case t.Part == productPart && t.Rank >= 4:
			rank = rankModels + 1
		}
		list = append(list, item{t.String(), rank, func(ctx context.Context) {
			x := &row{Part: t.Part, Name: t.Name, Side: t.Side, Precision: t.Precision, Rows: t.Rows}
			a, err := r.kernels.ask(ctx, r.patience, &request{Op: "run", Task: t.String()})
			if x.Fault = faultOf(err); err == nil {
				x.Times = a.Times
			}
			r.add(x)
		}})
	}
	return list
}

// networkItems are the networks: their references, then by batch and precision, on carve alone and beside rivals.
func (r *run) networkItems(ctx context.Context) (list []item) {
	add := func(rank float64, name string, do func(ctx context.Context)) {
		list = append(list, item{name, rank, do})
	}
	for k, n := range r.networks(ctx) {
		add(rankReferences, "float64 "+n.name, func(ctx context.Context) {
			c := &contest{run: r, network: n}
			if err := c.reference(ctx); err != nil {
				r.add(&row{Part: modelPart, Name: n.name, Side: "float64", Fault: faultOf(err)})
			}
		})
		for i, p := range r.precisions {
			for j, items := range r.batches {
				order := float64(i*len(r.batches)+j) + float64(k)/100
				name := fmt.Sprintf("%s %s @%d", n.name, p, items)
				hold := func(withRivals bool) func(ctx context.Context) {
					return func(ctx context.Context) {
						c := &contest{run: r, network: n, items: items, precision: p}
						if err := c.hold(ctx, withRivals); err != nil {
							r.add(&row{Part: modelPart, Name: n.name, Precision: p, Batch: items, Fault: faultOf(err)})
						}
					}
				}
				if r.wants(modelPart) {
					rank := rankModels + order/1000
					if i == 0 && j == 0 {
						rank = rankFirstModels
					}
					add(rank, name, hold(false))
				}
				if len(r.rivals) > 0 {
					add(rankRivals+order/1000, name+" beside rivals", hold(true))
				}
			}
		}
	}
	return list
}

// work goes through the agenda until it is done or there is no time left.
func (r *run) work(ctx context.Context, list []item) {
	for i, x := range list {
		if ctx.Err() != nil {
			for _, y := range list[i:] {
				r.report.Left = append(r.report.Left, y.name)
			}
			return
		}
		x.do(ctx)
	}
}
