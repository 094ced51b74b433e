package listen_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"syscall"
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

// slow is a port whose connections are accepted one after the other.
type slow struct {
	*net.TCPListener
	taken chan struct{}
}

func (s slow) Accept() (net.Conn, error) {
	c, err := s.TCPListener.Accept()
	if err == nil {
		s.taken <- struct{}{}
		time.Sleep(10 * time.Millisecond)
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

	It("answers connections that nobody had accepted yet", func(ctx SpecContext) {
		if runtime.GOOS != "linux" {
			Skip("the system does not tell whether there are any")
		}
		at, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		l := slow{at.(*net.TCPListener), make(chan struct{}, 100)}
		stop := listen.ServeAt(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		const clients = 20
		failed := make(chan error, clients)
		var dialled sync.WaitGroup
		for range clients {
			dialled.Add(1)
			go func() {
				c, err := net.Dial("tcp", at.Addr().String())
				dialled.Done()
				if err == nil {
					defer c.Close()
					_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
					_, err = http.ReadResponse(bufio.NewReader(c), nil)
				}
				failed <- err
			}()
		}
		dialled.Wait()
		Expect(len(l.taken)).To(BeNumerically("<", clients/2))
		deadline, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		Expect(stop(deadline)).To(Succeed())
		for range clients {
			Eventually(failed).Should(Receive(BeNil()))
		}
		_, err = net.Dial("tcp", at.Addr().String())
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
	})
})
