package listen_test

import (
	"context"
	"net"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/listen"
)

// late is a listener whose connections take a while from the system's queue to whoever accepts them.
type late struct {
	net.Listener
	taken chan struct{}
}

func (l late) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.taken <- struct{}{}
		time.Sleep(100 * time.Millisecond)
	}
	return c, err
}

var _ = Describe("A port that closes", func() {
	It("waits for a connection that is being accepted", func(ctx SpecContext) {
		at, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		l := late{at, make(chan struct{}, 1)}
		stop := listen.ServeAt(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		status := make(chan int, 1)
		go func() {
			defer close(status)
			r, err := http.Get("http://" + at.Addr().String())
			if err == nil {
				status <- r.StatusCode
				_ = r.Body.Close()
			}
		}()
		Eventually(l.taken).Should(Receive())
		deadline, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		Expect(stop(deadline)).To(Succeed())
		Eventually(status).Should(Receive(Equal(http.StatusTeapot)))
	})
})
