package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// listing returns the names and contents of all files below folders.
func listing(dirs ...string) map[string]string {
	GinkgoHelper()
	out := map[string]string{}
	for _, dir := range dirs {
		Expect(filepath.WalkDir(dir, func(at string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(at)
			out[at] = string(b)
			return err
		})).To(Succeed())
	}
	return out
}

// upload returns the body of a load call that carries a model's file.
func upload(text string) string {
	GinkgoHelper()
	b, err := modeltest.Encode(text)
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf(`{"parameters":{"config":"{}","file:1/model.onnx":%q}}`, base64.StdEncoding.EncodeToString(b))
}

// weighty returns the text of a model with n float32 weights whose output is its input.
func weighty(n int) string {
	return fmt.Sprintf("graph \"weighty\" {\n  opset 17\n  input %%x: f32[N,3]\n  const %%w = f32[%d]{%s0}\n  %%s: f32[1] = ReduceSum(%%w)\n  %%y: f32[N,3] = Add(%%x, %%s)\n  output %%y\n}", n, strings.Repeat("0, ", n-1))
}

// echoes asks an echo, and fails where the answer is not the question.
func echoes(ctx context.Context, c asker, model string, values ...float32) error {
	have, err := c.Infer(ctx, request(model, "x", tensor.From(values, 1, 3)))
	if err != nil {
		return err
	}
	if got := tensor.Elements[float32](have.Outputs[0].Tensor); len(got) != 3 || got[0] != values[0] || got[1] != values[1] || got[2] != values[2] {
		return fmt.Errorf("%w: %v for %v", errMixed, got, values)
	}
	return nil
}

var errMixed = errors.New("another one's answer")

// cutOff reports whether an error is that of a connection whose other end is gone.
func cutOff(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || status.Code(err) == codes.Unavailable
}

var _ = Describe("a server's process", func() {
	It("killed under load and while it loads, leaves nothing behind, and starts again", func(ctx SpecContext) {
		dir, scratch := models(), GinkgoT().TempDir()
		before := listing(dir, scratch)
		var clients map[string]asker
		at := []string{"-models", dir, "-model-control", "explicit"}
		for range 3 {
			self, err := os.Executable()
			Expect(err).NotTo(HaveOccurred())
			c := exec.Command(self)
			c.Env, c.Dir = []string{"TMPDIR=" + scratch}, scratch
			p := spawn(c, at...)
			if clients == nil {
				clients = p.askers()
				at = append(at, "-http", p.addresses["http"], "-grpc", p.addresses["grpc"])
			}
			code, body := p.post("/v2/repository/models/echo_fp32/load", "")
			Expect(code).To(Equal(200), body)

			var group sync.WaitGroup
			var answered atomic.Int64
			for form, client := range clients {
				for k := range 3 {
					group.Go(func() {
						defer GinkgoRecover()
						for i := 0; ; i++ {
							if err := echoes(ctx, client, "echo_fp32", float32(k), float32(i), 7); err != nil {
								if code := status.Code(err); code == codes.Unavailable && answered.Load() < 1000 {
									continue // a connection to the process before, not made again yet
								}
								Expect(cutOff(err)).To(BeTrue(), "%s: %v", form, err)
								return
							}
							answered.Add(1)
						}
					})
				}
			}
			sent := upload(weighty(1000))
			group.Go(func() { // loads are under way all the time, of what lies there and of what comes with the call
				for i := 0; ; i++ {
					path, body := "digits/"+[]string{"load", "unload"}[i%2], ""
					if i%3 == 2 {
						path, body = "sent/load", sent
					}
					a, err := http.Post("http://"+p.addresses["http"]+"/v2/repository/models/"+path, "", strings.NewReader(body))
					if err != nil {
						return
					}
					_ = a.Body.Close()
				}
			})
			Eventually(answered.Load).Should(BeNumerically(">=", 1000))
			p.kill()
			group.Wait()
			Expect(listing(dir, scratch)).To(Equal(before))
		}
	})

	It("that cannot write a file takes uploads", func(ctx SpecContext) {
		shell, err := exec.LookPath("sh")
		if err != nil || runtime.GOOS == "windows" {
			Skip("there is no shell that limits what a process writes")
		}
		self, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		p := spawn(exec.Command(shell, "-c", `ulimit -f 0 && exec "$0" "$@"`, self), "-models", models(), "-model-control", "explicit")
		for name, text := range map[string]string{"small": modeltest.Echo("f32"), "large": weighty(300_000)} {
			code, body := p.post("/v2/repository/models/"+name+"/load", upload(text))
			Expect(code).To(Equal(200), body)
			for form, c := range p.askers() {
				Expect(echoes(ctx, c, name, 1, 2, 3)).To(Succeed(), form)
			}
		}
		code, body := p.post("/v2/repository/models/cut/load", `{"parameters":{"config":"{}","file:1/model.onnx":"`+base64.StdEncoding.EncodeToString([]byte("\x08\x0a"))+`"}}`)
		Expect(code).To(Equal(400), body)
	})

	// Each round of loads also has a request, so that everything of a run is made and given back.
	rounds := func(n int) func(SpecContext) {
		return func(ctx SpecContext) {
			p := spawned("-models", models(), "-model-control", "explicit")
			c := p.askers()["HTTP"]
			round := func() {
				for _, model := range []string{"digits", "echo_fp32"} {
					code, body := p.post("/v2/repository/models/"+model+"/load", "")
					Expect(code).To(Equal(200), body)
				}
				Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed())
				for _, model := range []string{"digits", "echo_fp32"} {
					code, body := p.post("/v2/repository/models/"+model+"/unload", "")
					Expect(code).To(Equal(200), body)
				}
			}
			for range n / 10 {
				round()
			}
			files, bytes := p.files(), p.resident()
			for range n {
				round()
			}
			Expect(p.files()).To(BeNumerically("<", files+n/2), "connections come and go, a file a round does not")
			if n >= 1000 {
				GinkgoWriter.Println("resident bytes before and after", bytes, p.resident())
				Expect(p.resident()).To(BeNumerically("<=", bytes*105/100))
			}
		}
	}
	It("has no more files open after 50 rounds of loading and unloading", rounds(50))
	It("has no more than 5 % more memory after 1,000 rounds", Label("slow"), rounds(1000))

	// Memory is that of the process before and after; it is looked at where there are enough requests for a leak to show.
	tiny := func(n int) func(SpecContext) {
		return func(ctx SpecContext) {
			p := spawned("-models", models(), "-model-control", "explicit")
			code, body := p.post("/v2/repository/models/echo_fp32/load", "")
			Expect(code).To(Equal(200), body)
			clients := p.askers()
			ask := func(n int) {
				var group sync.WaitGroup
				var next atomic.Int64
				for form, c := range clients {
					for range 4 {
						group.Go(func() {
							defer GinkgoRecover()
							for i := next.Add(1); i <= int64(n); i = next.Add(1) {
								Expect(echoes(ctx, c, "echo_fp32", float32(i>>16), float32(i&0xffff), 1)).To(Succeed(), form)
							}
						})
					}
				}
				group.Wait()
			}
			ask(n / 10)
			files, bytes := p.files(), p.resident()
			ask(n)
			Expect(p.files()).To(BeNumerically("<", files+n/100), "connections come and go, a file a request does not")
			a, err := http.Get("http://" + p.addresses["http"] + "/v2/models/echo_fp32/stats")
			Expect(err).NotTo(HaveOccurred())
			defer a.Body.Close()
			text, err := io.ReadAll(a.Body)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).To(ContainSubstring(fmt.Sprintf(`"inference_count":%d`, n+n/10)))
			if n >= 1e6 {
				GinkgoWriter.Println("resident bytes before and after", bytes, p.resident())
				Expect(p.resident()).To(BeNumerically("<=", bytes*105/100))
			}
		}
	}
	It("answers 10,000 tiny requests, each its own", tiny(10_000))
	It("answers 1,000,000 tiny requests, each its own, with no more than 5 % more memory", Label("slow"), tiny(1_000_000))
})

var _ = Describe("requests that name an output more than once", func() {
	It("have a typed error: no answer is many times as long as the results", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit")
		load(l, "echo_fp32")
		for form, c := range askers(l) {
			r := request("echo_fp32", "x", tensor.From([]float32{1, 2, 3}, 1, 3))
			r.Outputs = []oip.Output{{Name: "y"}, {Name: "y"}}
			_, err := c.Infer(ctx, r)
			Expect(err).To(MatchError(ContainSubstring("output 'y' is asked for twice")), form)
			r.Outputs = r.Outputs[:1]
			_, err = c.Infer(ctx, r)
			Expect(err).NotTo(HaveOccurred(), form)
		}
	})
})

var _ = Describe("models that change", func() {
	It("take other inputs from then on: requests of the old form have typed errors, other models go on", func(ctx SpecContext) {
		dir := models()
		l, _ := started("-models", dir, "-model-control", "explicit")
		load(l, "echo_fp32")
		load(l, "echo_int64")
		Expect(modeltest.Write(dir, "echo_fp32", 1, strings.ReplaceAll(modeltest.Echo("f64"), "%x", "%z"))).To(Succeed())
		later := time.Now().Add(time.Hour)
		Expect(os.Chtimes(filepath.Join(dir, "echo_fp32", "1", "model.onnx"), later, later)).To(Succeed())
		load(l, "echo_fp32")
		for form, c := range askers(l) {
			err := echoes(ctx, c, "echo_fp32", 1, 2, 3)
			Expect(err).To(MatchError(ContainSubstring("unexpected inference input 'x'")), form)
			_, err = c.Infer(ctx, request("echo_fp32", "z", tensor.From([]float64{1, 2, 3}, 1, 3)))
			Expect(err).NotTo(HaveOccurred(), form)
			_, err = c.Infer(ctx, request("echo_int64", "x", tensor.From([]int64{1, 2, 3}, 1, 3)))
			Expect(err).NotTo(HaveOccurred(), form)
		}
		_, body := ask(l, http.MethodGet, "/v2/models/echo_fp32", "")
		Expect(decoded(body)["inputs"]).To(Equal([]any{map[string]any{"name": "z", "datatype": "FP64", "shape": []any{-1., 3.}}}))
	})

	It("stay as they were where the configuration promises what the new file does not have, or the file is cut", func(ctx SpecContext) {
		dir := models()
		Expect(modeltest.Configure(dir, "echo_fp32", "input [ { name: 'x' data_type: TYPE_FP32 dims: [ -1, 3 ] } ]")).To(Succeed())
		l, _ := started("-models", dir, "-model-control", "explicit")
		load(l, "echo_fp32")
		file := filepath.Join(dir, "echo_fp32", "1", "model.onnx")
		whole, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		other, err := modeltest.Encode(modeltest.Echo("f64"))
		Expect(err).NotTo(HaveOccurred())
		for says, b := range map[string][]byte{"TYPE_FP32": other, "failed to load 'echo_fp32'": whole[:len(whole)/2]} {
			Expect(os.WriteFile(file, b, 0o600)).To(Succeed())
			code, body := ask(l, http.MethodPost, "/v2/repository/models/echo_fp32/load", "")
			Expect(code).To(Equal(400), body)
			Expect(decoded(body)["error"]).To(ContainSubstring(says))
			for form, c := range askers(l) {
				Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
			}
		}
	})
})

var _ = Describe("clients that send slowly", func() {
	It("are cut off in all that they can leave half sent, and hold up nobody", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit", "-body-timeout", "300ms")
		load(l, "echo_fp32")
		before := runtime.NumGoroutine()
		var conns []net.Conn
		for i := range 72 {
			conn, err := net.Dial("tcp", l.Addr([]string{"http", "grpc", "metrics"}[i%3]).String())
			Expect(err).NotTo(HaveOccurred())
			conns = append(conns, conn)
			_, err = conn.Write([]byte([]string{
				"", "POST /v2/mod", "PRI * HTTP/2.0\r\n", "POST /v2/models/echo_fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
				"POST /v2/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{",
			}[i/3%6]))
			Expect(err).NotTo(HaveOccurred())
		}
		for form, c := range askers(l) {
			Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
		}
		for i, conn := range conns {
			Expect(conn.SetReadDeadline(time.Now().Add(time.Minute))).To(Succeed())
			_, err := io.Copy(io.Discard, conn)
			Expect(err).To(Or(Not(HaveOccurred()), MatchError(ContainSubstring("reset by peer"))), "connection %d ends", i)
			Expect(conn.Close()).To(Succeed())
		}
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", before+20), "those of the clients above")
	})

	It("are answered where they do not get to send their first byte for long", func() {
		dir := models()
		var group sync.WaitGroup
		for _, mixed := range []string{"false", "true"} {
			l, _ := started("-models", dir, "-body-timeout", "1s", "-mixed="+mixed)
			for port, ask := range map[string]string{"http": "GET /v2 HTTP/1.0\r\n\r\n", "grpc": http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"} {
				conn, err := net.Dial("tcp", l.Addr(port).String())
				Expect(err).NotTo(HaveOccurred())
				group.Go(func() {
					defer GinkgoRecover()
					defer conn.Close()
					time.Sleep(2500 * time.Millisecond)
					_, err := io.WriteString(conn, ask)
					Expect(err).NotTo(HaveOccurred(), port)
					Expect(conn.SetReadDeadline(time.Now().Add(time.Minute))).To(Succeed())
					answer := make([]byte, 9)
					_, err = io.ReadFull(conn, answer)
					Expect(err).NotTo(HaveOccurred(), port)
					Expect(string(answer)).To(Or(Equal("HTTP/1.0 "), HaveSuffix("\x00\x00\x00\x00")), port) // a frame of settings has no stream
				})
			}
		}
		group.Wait()
	})

	It("have a typed error for calls of gRPC whose message does not arrive", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit", "-body-timeout", "300ms")
		load(l, "echo_fp32")
		for _, port := range []string{"grpc", "http"} {
			for _, row := range []struct {
				name    string
				message []byte
				within  string
			}{
				{"nothing", nil, "300ms"}, {"a part", append(frame(1000), 1, 2, 3), "300ms"}, {"a part of 1 MiB", append(frame(1<<20), 1, 2, 3), "1.3s"},
			} {
				code, text := raw(ctx, l.Addr(port).String(), row.message, true)
				Expect(code).To(Equal(codes.DeadlineExceeded), "%s: %s: %s", port, row.name, text)
				Expect(text).To(Equal("the message has not arrived within "+row.within), "%s: %s", port, row.name)
			}
		}
		for form, c := range askers(l) {
			Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
		}
	})
})

var _ = Describe("calls that are over before a slow one would be cut off", func() {
	It("leave nothing that ends the server later", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit", "-body-timeout", "100ms")
		load(l, "echo_fp32")
		for _, port := range []string{"grpc", "http"} {
			conn := dial(l, port)
			_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
			Expect(err).NotTo(HaveOccurred())
			err = conn.Invoke(ctx, "/inference.GRPCInferenceService/Nothing", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{})
			Expect(status.Code(err)).To(Equal(codes.Unimplemented))
		}
		clients := askers(l)
		Consistently(func(g Gomega) {
			for form, c := range clients {
				g.Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
			}
		}, "500ms", "50ms").Should(Succeed())
	})
})

// frame returns the head of a message of gRPC.
func frame(n uint32) []byte { return binary.BigEndian.AppendUint32([]byte{0}, n) }

// raw makes a call of gRPC of any bytes, and returns the answer's status. The request ends after the bytes, or is held open.
func raw(ctx context.Context, address string, message []byte, hold bool) (codes.Code, string) {
	GinkgoHelper()
	from, to := io.Pipe()
	defer from.Close()
	go func() {
		_, _ = to.Write(message)
		if !hold {
			_ = to.Close()
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/inference.GRPCInferenceService/ModelInfer", from)
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	t := &http.Transport{Protocols: &p}
	defer t.CloseIdleConnections()
	a, err := t.RoundTrip(r)
	Expect(err).NotTo(HaveOccurred())
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, a.Body)
	text := a.Trailer
	if a.Header.Get("Grpc-Status") != "" {
		text = a.Header
	}
	var code int
	_, err = fmt.Sscan(text.Get("Grpc-Status"), &code)
	Expect(err).NotTo(HaveOccurred(), "%v %v", a.Header, a.Trailer)
	return codes.Code(code), text.Get("Grpc-Message")
}

var _ = Describe("messages of gRPC that lie about lengths", func() {
	It("have typed errors", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit", "-max-request-bytes", "1000000")
		load(l, "echo_fp32")
		for _, port := range []string{"grpc", "http"} {
			for _, row := range []struct {
				message []byte
				code    codes.Code
			}{
				{frame(1<<32 - 1), codes.ResourceExhausted}, {frame(1_000_001), codes.ResourceExhausted},
				{append(frame(1000), 1, 2, 3), codes.Internal},                              // ends early
				{append(frame(3), 0x3a, 0xff, 0x7f), codes.Internal},                        // raw contents of 16383 bytes
				{append(frame(6), 0x3a, 0xff, 0xff, 0xff, 0xff, 0x7f), codes.Internal},      // of 32 GiB
				{append(frame(4), 0x0a, 0x01, 'q', 0x3a), codes.Internal},                   // a tag without a value
				{append(frame(13), "\x0a\x09echo_fp32\x3a\x00"...), codes.InvalidArgument},  // raw contents of no input
				{append(frame(15), "\x0a\x09echo_fp32\x2a\x02\x0a\x7f"...), codes.Internal}, // a name longer than its input
			} {
				code, text := raw(ctx, l.Addr(port).String(), row.message, false)
				Expect(code).To(Equal(row.code), "%s: %q: %s", port, row.message, text)
				Expect(text).NotTo(BeEmpty())
			}
		}
		for form, c := range askers(l) {
			Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
		}
	})
})
