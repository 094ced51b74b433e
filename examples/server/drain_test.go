package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/graph/tensor"
)

// webAsker is a client over HTTP/1 or HTTP/2, with TLS where trust is not nil.
func (p *process) webAsker(trust *tls.Config, version int, anew bool) asker {
	var protocols http.Protocols
	base := "http://"
	if trust != nil {
		base = "https://"
	}
	switch {
	case version == 1:
		protocols.SetHTTP1(true)
	case trust != nil:
		protocols.SetHTTP2(true)
	default:
		protocols.SetUnencryptedHTTP2(true)
	}
	t := &http.Transport{MaxIdleConnsPerHost: 64, DisableKeepAlives: anew, TLSClientConfig: trust, Protocols: &protocols}
	DeferCleanup(t.CloseIdleConnections)
	return &rest.Client{Base: base + p.addresses["http"], HTTP: &http.Client{Transport: t}}
}

// callAsker is a client over gRPC.
func (p *process) callAsker(trust *tls.Config, port string) (asker, *grpc.ClientConn) {
	GinkgoHelper()
	secure := insecure.NewCredentials()
	if trust != nil {
		secure = credentials.NewTLS(trust)
	}
	conn, err := grpc.NewClient(p.addresses[port], grpc.WithTransportCredentials(secure))
	Expect(err).NotTo(HaveOccurred())
	return oipgrpc.NewClient(conn), conn
}

// leaving are clients of all forms that ask once each time they are called. With anew each request has a connection of its own.
func (p *process) leaving(trust *tls.Config, anew bool) map[string]func(context.Context) error {
	GinkgoHelper()
	out := map[string]func(context.Context) error{}
	for form, version := range map[string]int{"HTTP/1": 1, "HTTP/2": 2} {
		if c := p.webAsker(trust, version, anew); version == 1 || !anew {
			out[form] = func(ctx context.Context) error { return echoes(ctx, c, "echo_fp32", 1, 2, 3) }
		}
	}
	for form, port := range map[string]string{"gRPC": "grpc", "gRPC on HTTP's port": "http"} {
		if anew {
			out[form] = func(ctx context.Context) error {
				c, conn := p.callAsker(trust, port)
				defer conn.Close()
				return echoes(ctx, c, "echo_fp32", 1, 2, 3)
			}
			continue
		}
		c, conn := p.callAsker(trust, port)
		DeferCleanup(conn.Close)
		out[form] = func(ctx context.Context) error { return echoes(ctx, c, "echo_fp32", 1, 2, 3) }
	}
	return out
}

// Clients that ask again and again have their connections idle between two requests, most of which would meet with the closing of these; those that
// connect for each request have connections that nobody has accepted yet.
var _ = DescribeTable("clients have an answer to whatever they send until SIGTERM closes the ports, and none to nothing", func(ctx SpecContext, secure, anew bool, flags ...string) {
	const callers = 8
	var trust *tls.Config
	if secure {
		var files []string
		files, trust = certificate()
		flags = append(flags, files...)
	}
	p := spawned(append([]string{"-models", models()}, flags...)...)
	var group sync.WaitGroup
	var answered atomic.Int64
	for form, ask := range p.leaving(trust, anew) {
		for range callers {
			group.Go(func() {
				defer GinkgoRecover()
				var err error
				for ; err == nil; answered.Add(1) {
					err = ask(ctx)
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
	Expect(p.ended()).To(Succeed())
	group.Wait()
	Expect(answered.Load()).To(BeNumerically(">", 3*callers))
},
	Entry("that keep connections", false, false),
	Entry("that keep connections, of gRPC among others", false, false, "-mixed"),
	Entry("that keep connections with TLS", true, false),
	Entry("that keep connections with TLS, of gRPC among others", true, false, "-mixed"),
	Entry("that connect for each request", false, true),
	Entry("that connect for each request, by gRPC among others", false, true, "-mixed"),
	Entry("that connect for each request with TLS", true, true),
	Entry("that connect for each request with TLS, by gRPC among others", true, true, "-mixed"),
)

// What is waited for otherwise is so long that the spec would not end: connections may be silent for four times -body-timeout.
var _ = DescribeTable("clients that have connected, and ask for nothing, hold up no end", func(ctx SpecContext, secure bool, flags ...string) {
	flags = append(flags, "-models", models(), "-body-timeout", "1h")
	if secure {
		files, _ := certificate()
		flags = append(flags, files...)
	}
	p := spawned(flags...)
	settings := "\x00\x40\x00\x04\x00\x00\x00\x00\x00" // of 16 KiB, which do not come
	for _, port := range []string{"http", "grpc", "metrics"} {
		for _, opening := range []string{"", "PRI * HT", http2.ClientPreface, http2.ClientPreface + settings + "\x00"} {
			conn, err := net.Dial("tcp", p.addresses[port])
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(conn.Close)
			var to io.Writer = conn
			if secure && opening != "" && port != "metrics" {
				to = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // its own certificate
			}
			_, err = io.WriteString(to, opening)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	time.Sleep(50 * time.Millisecond)
	Expect(p.Process.Signal(syscall.SIGTERM)).To(Succeed())
	_ = p.ended() // with requests cut off or not
},
	Entry("by itself", false, "-drain", "2s"),
	Entry("of gRPC among others", false, "-mixed", "-drain", "2s"),
	Entry("with TLS", true, "-drain", "2s"),
)

var _ = It("connections of gRPC that have opened nothing are cut off long before the drain is over, and are no requests that were cut off", func(ctx SpecContext) {
	p := spawned("-models", models(), "-body-timeout", "1h", "-drain", "1h")
	for _, port := range []string{"http", "grpc"} {
		for _, opening := range []string{"", "PRI * HT"} {
			conn, err := net.Dial("tcp", p.addresses[port])
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(conn.Close)
			_, err = io.WriteString(conn, opening)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	Expect(p.Process.Signal(syscall.SIGTERM)).To(Succeed())
	Expect(p.ended()).To(Succeed())
})

// turning is a model whose run takes as long as its input says.
const turning = `graph "turning" {
  opset 17
  input %m: i64[1]
  const %c = bool[]{true}
  const %x = f32[1]{0}
  %n = Squeeze(%m)
  %y = Loop(%n, %c, %x |) "loop" {
    body: graph {
      input %i: i64[]
      input %k: bool[]
      input %v: f32[1]
      %w = Sin(%v)
      %l = Identity(%k)
      output %l, %w
    }
  }
  output %y
}`

var _ = DescribeTable("a request that outlasts the drain is cut off, and the end says so", func(ctx SpecContext, form string) {
	dir := models()
	Expect(modeltest.Write(dir, "turning", 1, turning)).To(Succeed())
	p := spawned("-models", dir, "-drain", "300ms")
	c, over := p.askers()[form], make(chan error, 1)
	go func() {
		_, err := c.Infer(ctx, request("turning", "m", tensor.From([]int64{1 << 60}, 1)))
		over <- err
	}()
	Eventually(func() string {
		Expect(over).NotTo(Receive())
		a, err := http.Get("http://" + p.addresses["metrics"] + "/metrics")
		Expect(err).NotTo(HaveOccurred())
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		Expect(err).NotTo(HaveOccurred())
		return string(text)
	}).Should(ContainSubstring(`carve_pending_requests{model="turning",version="1"} 1`))
	Expect(p.Process.Signal(syscall.SIGTERM)).To(Succeed())
	Expect(p.ended()).To(MatchError("exit status 1"))
	Expect(p.log.String()).To(ContainSubstring("requests were cut off"))
	Eventually(over).Should(Receive(HaveOccurred()))
},
	Entry("of HTTP", "HTTP"), Entry("of gRPC", "gRPC"), Entry("of gRPC on HTTP's port", "gRPC on HTTP's port"),
)
