package main

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Clients that ask again and again have their connections idle between two requests, most of which would meet with the closing of these.
var _ = It("clients that keep connections have an answer to whatever they send until SIGTERM closes the ports, and none to nothing", func(ctx SpecContext) {
	const callers = 8
	for range 3 {
		p := spawned("-models", models())
		var group sync.WaitGroup
		var answered atomic.Int64
		for form, c := range p.askers() {
			for range callers {
				group.Go(func() {
					defer GinkgoRecover()
					var err error
					for ; err == nil; answered.Add(1) {
						err = echoes(ctx, c, "echo_fp32", 1, 2, 3)
					}
					var dial *net.OpError
					if errors.As(err, &dial) {
						Expect(dial.Op).To(Equal("dial"), "%s: %v", form, err)
						return
					}
					Expect(status.Code(err)).To(Equal(codes.Unavailable), "%s: %v", form, err)
					Expect(err).To(MatchError(ContainSubstring("dial")), form)
				})
			}
		}
		time.Sleep(200 * time.Millisecond)
		Expect(p.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(<-p.over).NotTo(HaveOccurred())
		p.over = nil
		group.Wait()
		Expect(answered.Load()).To(BeNumerically(">", 3*callers))
	}
})
