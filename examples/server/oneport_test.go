package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/rest"
)

// byNet reports whether grpc-go behind net/http has answered a call, which names the trailers that follow.
func byNet(ctx context.Context, conn *grpc.ClientConn, fields ...string) bool {
	GinkgoHelper()
	var header metadata.MD
	_, err := healthpb.NewHealthClient(conn).Check(metadata.AppendToOutgoingContext(ctx, fields...), &healthpb.HealthCheckRequest{}, grpc.Header(&header))
	Expect(err).NotTo(HaveOccurred())
	return len(header.Get("trailer")) > 0
}

// client returns a client of net/http for one version of HTTP.
func client(two bool, secure *tls.Config) *http.Client {
	var p http.Protocols
	p.SetHTTP1(!two)
	p.SetHTTP2(two)
	p.SetUnencryptedHTTP2(two)
	t := &http.Transport{Protocols: &p, TLSClientConfig: secure}
	DeferCleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns the flags that name them and what trusts it.
func certificate() (flags []string, trust *tls.Config) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	Expect(err).NotTo(HaveOccurred())
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "PRIVATE KEY", Bytes: secret}} {
		Expect(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600)).To(Succeed())
		flags = append(flags, "-tls-"+name, filepath.Join(dir, name))
	}
	parsed, err := x509.ParseCertificate(cert)
	Expect(err).NotTo(HaveOccurred())
	trust = &tls.Config{RootCAs: x509.NewCertPool()}
	trust.RootCAs.AddCert(parsed)
	return flags, trust
}

// frames speaks HTTP/2 by hand.
type frames struct {
	net.Conn
	*http2.Framer
}

// opened opens a connection, and sends the preface of HTTP/2.
func opened(l *listen.Listeners) frames {
	GinkgoHelper()
	conn, err := net.Dial("tcp", l.Addr("http").String())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	Expect(conn.SetDeadline(time.Now().Add(time.Minute))).To(Succeed())
	_, err = io.WriteString(conn, http2.ClientPreface)
	Expect(err).NotTo(HaveOccurred())
	f := frames{conn, http2.NewFramer(conn, conn)}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return f
}

// get asks whether the server lives.
func (f frames) get() {
	GinkgoHelper()
	var block strings.Builder
	e := hpack.NewEncoder(&block)
	for _, x := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/v2/health/live"}, {Name: ":authority", Value: "x"}} {
		Expect(e.WriteField(x)).To(Succeed())
	}
	Expect(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndStream: true, EndHeaders: true})).To(Succeed())
}

// next reads the next frame of a type.
func (f frames) next(t http2.FrameType) http2.Frame {
	GinkgoHelper()
	for {
		x, err := f.ReadFrame()
		Expect(err).NotTo(HaveOccurred())
		Expect(x.Header().Type).NotTo(Equal(http2.FrameGoAway))
		if x.Header().Type == t {
			return x
		}
	}
}

// live reads the answer to get.
func (f frames) live() {
	GinkgoHelper()
	Expect(f.next(http2.FrameHeaders).(*http2.MetaHeadersFrame).PseudoValue("status")).To(Equal("200"))
}

var _ = Describe("HTTP's port", func() {
	for _, secure := range []bool{false, true} {
		It("answers clients of all kinds at the same time, and those of gRPC libraries by grpc-go's transport"+map[bool]string{true: ", over TLS"}[secure], func(ctx SpecContext) {
			args, scheme, creds := []string{"-models", models()}, "http://", insecure.NewCredentials()
			var trust *tls.Config
			if secure {
				var flags []string
				flags, trust = certificate()
				args, scheme, creds = append(args, flags...), "https://", credentials.NewTLS(trust)
			}
			l, _ := started(args...)
			base := scheme + l.Addr("http").String()
			clients := map[string]asker{}
			for name, two := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
				c := client(two, trust)
				clients[name] = &rest.Client{Base: base, HTTP: c}
				a, err := c.Get(base + "/v2/health/live")
				Expect(err).NotTo(HaveOccurred())
				Expect(a.Proto).To(HavePrefix(name))
				Expect(a.Body.Close()).To(Succeed())
			}
			for _, port := range []string{"http", "grpc"} {
				conn, err := grpc.NewClient(l.Addr(port).String(), grpc.WithTransportCredentials(creds))
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(conn.Close)
				Expect(byNet(ctx, conn)).To(BeFalse(), port)
				clients["gRPC on "+port] = oipgrpc.NewClient(conn)
			}
			var group sync.WaitGroup
			for name, c := range clients {
				for k := range 4 {
					group.Go(func() {
						defer GinkgoRecover()
						for i := range 20 {
							Expect(echoes(ctx, c, "echo_fp32", float32(k), float32(i), 3)).To(Succeed(), name)
						}
					})
				}
			}
			group.Wait()
		})
	}

	It("leaves gRPC to net/http where a connection may have other requests too", func(ctx SpecContext) {
		l, _ := started("-models", models())
		for _, field := range []string{"forwarded", "via", "x-forwarded-for", "x-real-ip", "x-envoy-attempt-count"} {
			Expect(byNet(ctx, dial(l, "http"), field, "x")).To(BeTrue(), field)
		}
		conn := dial(l, "http")
		Expect(byNet(ctx, conn)).To(BeFalse())
		Expect(byNet(ctx, conn, "via", "x")).To(BeFalse(), "what comes first decides")
		mixed, _ := started("-models", models(), "-mixed")
		Expect(byNet(ctx, dial(mixed, "http"))).To(BeTrue())

		c := client(true, nil) // one connection for both
		for range 3 {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr("http").String()+"/inference.GRPCInferenceService/ServerLive", strings.NewReader("\x00\x00\x00\x00\x00"))
			Expect(err).NotTo(HaveOccurred())
			r.Header.Set("Content-Type", "application/grpc")
			r.Header.Set("Te", "trailers")
			a, err := c.Do(r)
			Expect(err).NotTo(HaveOccurred())
			_, err = io.Copy(io.Discard, a.Body)
			Expect(errors.Join(err, a.Body.Close())).To(Succeed())
			Expect(a.Trailer.Get("Grpc-Status")).To(Equal("0"))
			Expect(echoes(ctx, &rest.Client{Base: "http://" + l.Addr("http").String(), HTTP: c}, "echo_fp32", 1, 2, 3)).To(Succeed())
		}
	})

	It("sends settings to clients that wait for them before they ask, and takes acknowledgements when they come", func() {
		l, _ := started("-models", models())
		for _, first := range []bool{true, false} { // the acknowledgement before the request, and behind it
			f := opened(l)
			Expect(f.WriteSettings()).To(Succeed())
			f.next(http2.FrameSettings)
			if first {
				Expect(f.WriteSettingsAck()).To(Succeed())
			}
			f.get()
			if !first {
				time.Sleep(20 * time.Millisecond)
				Expect(f.WriteSettingsAck()).To(Succeed())
			}
			f.next(http2.FrameSettings) // net/http's own
			Expect(f.WriteSettingsAck()).To(Succeed())
			f.live()
			Expect(f.WritePing(false, [8]byte{1})).To(Succeed())
			f.next(http2.FramePing)
		}
	})

	It("answers a client that asks late, or a byte at a time", func() {
		l, _ := started("-models", models(), "-body-timeout", "200ms")
		f := opened(l)
		Expect(f.WriteSettings()).To(Succeed())
		f.next(http2.FrameSettings)
		Expect(f.WriteSettingsAck()).To(Succeed())
		time.Sleep(400 * time.Millisecond) // net/http has it now
		f.get()
		f.live()
		conn, err := net.Dial("tcp", l.Addr("http").String())
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		for _, b := range []byte("POST /v2 HTTP/1.0\r\n\r\n") {
			_, err = conn.Write([]byte{b})
			Expect(err).NotTo(HaveOccurred())
		}
		answer, err := io.ReadAll(conn)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(answer)).To(HavePrefix("HTTP/1.0 405"))
	})

	It("cuts off openings that lie about lengths or have no end", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-body-timeout", "200ms")
		settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		conns := map[string]net.Conn{}
		for name, b := range map[string]string{
			"settings of 16 MiB": "\xff\xff\xff\x04\x00\x00\x00\x00\x00", "fields of 16 MiB": settings + "\xff\xff\xff\x01\x04\x00\x00\x00\x01",
			"fields without end": settings + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82" + strings.Repeat("\x00\x00\x01\x09\x00\x00\x00\x00\x01\x84", 8000),
			"data":               settings + "\x00\x00\x01\x00\x00\x00\x00\x00\x01x", "noise": strings.Repeat("\x01", 4000),
		} {
			f := opened(l)
			go func() { _, _ = io.WriteString(f.Conn, b) }()
			conns[name] = f.Conn
		}
		f := opened(l) // acknowledges nothing: net/http does not ask for that
		Expect(f.WriteSettings()).To(Succeed())
		f.get()
		f.live()
		for name, c := range conns {
			_, err := io.Copy(io.Discard, c)
			Expect(err).To(Or(Not(HaveOccurred()), MatchError(ContainSubstring("reset by peer"))), name)
		}
		Expect(byNet(ctx, dial(l, "http"))).To(BeFalse())
	})

	It("loses no request on a new connection when the server ends", func(ctx SpecContext) {
		l, stop := started("-models", models(), "-linger", "100ms")
		var group sync.WaitGroup
		var answered, lost atomic.Int64
		for k := range 6 {
			group.Go(func() {
				defer GinkgoRecover()
				for {
					conn, err := grpc.NewClient(l.Addr("http").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
					Expect(err).NotTo(HaveOccurred())
					var c asker = oipgrpc.NewClient(conn)
					if k%2 == 0 {
						c = &rest.Client{Base: "http://" + l.Addr("http").String(), HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
					}
					err = echoes(ctx, c, "echo_fp32", float32(k), 2, 3)
					Expect(conn.Close()).To(Succeed())
					if err != nil {
						// A reset is the kernel's answer to a connection that the server had not accepted when the port closed.
						if s := err.Error(); !strings.Contains(s, "refused") && !strings.Contains(s, "shutting down") && !strings.Contains(s, "reset by peer") {
							lost.Add(1)
							GinkgoWriter.Println(err)
						}
						return
					}
					answered.Add(1)
				}
			})
		}
		Eventually(answered.Load).Should(BeNumerically(">", 50))
		Expect(stop()).To(Succeed())
		group.Wait()
		Expect(lost.Load()).To(BeZero())
	})
})
