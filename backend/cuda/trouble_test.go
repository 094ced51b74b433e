package cuda_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/graph/device"
)

var _ = DescribeTable("runs of several goroutines on one Program agree with the reference", func(ctx SpecContext, settings map[string]int) {
	fake := driver()
	p := program(ctx, fake, net(), carve.Options{Streams: 2, Poison: true})
	for name, v := range settings {
		fake.Set(name, v)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			defer GinkgoRecover()
			for j := range 6 {
				agrees(ctx, p, 6*i+j)
			}
		})
	}
	wg.Wait()
	Expect(fake.Report()).To(BeEmpty())
},
	Entry("where the device begins when it is waited for", map[string]int{"early": 0}),
	Entry("where some of what is queued begins at once", map[string]int{"early": 50, "seed": 7}),
	Entry("where the device works on a thread of its own", map[string]int{"worker": 1, "slow_us": 50}),
)

var _ = DescribeTable("random graphs in trouble are right or say what it was, and leave nothing behind", func(ctx SpecContext, trouble func(r *rand.Rand) (settings map[string]int), cause func(error) bool) {
	fake := driver()
	told, made := 0, 0
	for seed := range uint64(30) {
		c, err := backendtest.RandomChain(seed + 1000)
		if err != nil {
			continue // the reference has something against it
		}
		made++
		fake.Reset()
		for name, v := range trouble(rand.New(rand.NewPCG(seed, 1))) {
			fake.Set(name, v)
		}
		b, err := cuda.Open(config(fake))
		if err == nil {
			err = c.Agree(ctx, carve.Options{Open: map[string]backend.Backend{"cuda": b}, Backends: []backend.Config{{Name: "cuda"}, {Name: "cpu"}},
				Placement: carve.Priority}, map[string]int{})
			_ = b.Close() // which may be what fails
		}
		if err != nil {
			told++
			Expect(cause(err)).To(BeTrue(), "%v\n%v", err, c)
		}
		fake.Set("fail_every", 0)
		fake.Set("fail_at", 0)
		Eventually(fake.Live).Should(BeEmpty(), "%v\n%v", err, c)
		Expect(fake.Report()).To(BeEmpty(), "%v\n%v", err, c)
	}
	Expect(made).To(BeNumerically(">", 20))
	fmt.Fprintf(GinkgoWriter, "%d graphs, the trouble of %d reaches the caller\n", made, told)
},
	Entry("for one call", func(r *rand.Rand) map[string]int { return map[string]int{"fail_at": 1 + r.IntN(150)} }, driverFault),
	Entry("for one call in so many", func(r *rand.Rand) map[string]int { return map[string]int{"fail_every": 20 + r.IntN(60)} }, driverFault),
	Entry("for want of memory", func(r *rand.Rand) map[string]int { return map[string]int{"memory": 1 << (9 + r.IntN(9))} },
		func(err error) bool { return errors.Is(err, device.ErrOutOfMemory) }),
)

// driverFault reports whether an error is one that the driver gave.
func driverFault(err error) bool {
	var e *cuda.Error
	return errors.As(err, &e) && e.Code == 999
}
