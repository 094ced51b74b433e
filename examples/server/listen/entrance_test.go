package listen_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
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

	It("gives on the connections that the system has taken, and takes no more", func() {
		if runtime.GOOS != "linux" {
			Skip("other systems do not tell")
		}
		for _, accepts := range []bool{false, true} {
			tcp, err := net.Listen("tcp", "127.0.0.1:0")
			Expect(err).NotTo(HaveOccurred())
			at := listen.Entrance(tcp)
			taken := make(chan net.Conn, 8)
			take := func() {
				defer close(taken)
				for {
					c, err := at.Accept()
					if err != nil {
						return
					}
					taken <- c
				}
			}
			if accepts { // is waiting when the port closes
				go take()
			}
			var clients []net.Conn
			for range cap(taken) {
				c, err := net.Dial("tcp", tcp.Addr().String())
				Expect(err).NotTo(HaveOccurred())
				defer c.Close()
				Expect(c.SetDeadline(time.Now().Add(time.Minute))).To(Succeed())
				_, err = c.Write([]byte("?"))
				Expect(err).NotTo(HaveOccurred())
				clients = append(clients, c)
			}
			Expect(at.Close()).To(Succeed())
			_, err = net.Dial("tcp", tcp.Addr().String())
			Expect(err).To(HaveOccurred())
			if !accepts {
				take()
			}
			for c := range taken {
				_, err := io.CopyN(c, c, 1)
				Expect(err).NotTo(HaveOccurred())
				Expect(c.Close()).To(Succeed())
			}
			for _, c := range clients {
				answer, err := io.ReadAll(c)
				Expect(err).NotTo(HaveOccurred())
				Expect(string(answer)).To(Equal("?"))
			}
			_, err = at.Accept()
			Expect(err).To(MatchError(net.ErrClosed))
		}
	})
})
