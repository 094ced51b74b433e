package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/rest"
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
	Expect(<-p.over).NotTo(HaveOccurred())
	p.over = nil
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
