package choose_test

import (
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/partition/internal/choose"
)

var _ = Describe("Place.Resolve", func() {
	// best returns the least cost over all alternatives of some variables that are allowed.
	var best func(p *choose.Problem, x, vars []int32, allow func(v, alt int32) bool) int64
	best = func(p *choose.Problem, x, vars []int32, allow func(v, alt int32) bool) int64 {
		if len(vars) == 0 {
			return p.Cost(x)
		}
		v, least := vars[0], choose.Hard
		was := x[v]
		for k := range p.Vars[v].Alts {
			if allow(v, int32(k)) {
				x[v] = int32(k)
				least = min(least, best(p, x, vars[1:], allow))
			}
		}
		x[v] = was
		return least
	}

	It("finds the best of some variables while the others stay", func(ctx SpecContext) {
		shape := small
		shape.claims = 0
		for seed := range uint64(300) {
			rng := rand.New(rand.NewPCG(seed, 31))
			p := random(rng, shape)
			x, y := make([]int32, len(p.Vars)), make([]int32, len(p.Vars))
			var vars []int32
			for v := range x {
				x[v] = int32(rng.IntN(len(p.Vars[v].Alts)))
				if rng.IntN(2) == 0 && len(vars) < 6 {
					vars = append(vars, int32(v))
				}
			}
			if len(vars) == 0 || p.Cost(x) >= choose.Hard {
				continue
			}
			copy(y, x)
			out := rng.Int32N(3)
			allow := func(v, alt int32) bool { return alt != out || len(p.Vars[v].Alts) == 1 }
			before, want := p.Cost(x), best(p, y, vars, allow)
			place, err := choose.NewPlace(ctx, p, x)
			Expect(err).NotTo(HaveOccurred())
			to, by, err := place.Resolve(ctx, vars, allow, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(place.Choice()).To(Equal(y), "nothing changes")
			if want >= choose.Hard {
				Expect(by).To(BeNumerically(">=", choose.Hard-before), "seed %d", seed)
				continue
			}
			Expect(before+by).To(Equal(want), "seed %d", seed)
			for k, v := range vars {
				Expect(allow(v, to[k])).To(BeTrue())
				place.Set(v, to[k])
			}
			Expect(p.Cost(place.Choice())).To(Equal(want), "seed %d", seed)
		}
	})

	It("says so where nothing is allowed", func(ctx SpecContext) {
		p := random(rand.New(rand.NewPCG(1, 32)), small)
		place, err := choose.NewPlace(ctx, p, make([]int32, len(p.Vars)))
		Expect(err).NotTo(HaveOccurred())
		_, by, err := place.Resolve(ctx, []int32{0}, func(v, alt int32) bool { return false }, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(by).To(Equal(choose.Hard))
	})
})
