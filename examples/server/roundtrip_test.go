package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/rest"
	"github.com/carve-dev/carve/graph/tensor"
)

// asker is a client of either form.
type asker interface {
	Infer(ctx context.Context, r *oip.Request) (*oip.Response, error)
}

// dial connects to a port by gRPC.
func dial(l *listen.Listeners, port string) *grpc.ClientConn {
	GinkgoHelper()
	conn, err := grpc.NewClient(l.Addr(port).String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	return conn
}

// askers are clients of all forms.
func askers(l *listen.Listeners) map[string]asker {
	GinkgoHelper()
	return map[string]asker{
		"HTTP": &rest.Client{Base: "http://" + l.Addr("http").String()}, "gRPC": oipgrpc.NewClient(dial(l, "grpc")), "gRPC on HTTP's port": oipgrpc.NewClient(dial(l, "http")),
	}
}

// images returns a random batch for the quickstart's model.
func images(r *rand.Rand, n int) *tensor.Tensor {
	x := make([]float32, n*64)
	for i := range x {
		x[i] = r.Float32()
	}
	return tensor.From(x, n, 1, 8, 8)
}

// digits compiles the quickstart's model.
func digits(ctx context.Context) *carve.Program {
	GinkgoHelper()
	m, err := carve.Open(ctx, "../quickstart/digits.onnx")
	Expect(err).NotTo(HaveOccurred())
	p, err := carve.Compile(ctx, m, nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { p.Close(); m.Close() })
	return p
}

func request(model, name string, t *tensor.Tensor) *oip.Request {
	return &oip.Request{Model: model, ID: "7", Inputs: []oip.Named{{Name: name, Tensor: t}}}
}

var _ = Describe("answers", func() {
	It("are those of Program.Run, bit for bit, for many callers at a time in every form", func(ctx context.Context) {
		l, _ := started("-models", "../quickstart")
		p := digits(ctx)
		for form, c := range askers(l) {
			var group sync.WaitGroup
			for k := range 8 {
				group.Go(func() {
					defer GinkgoRecover()
					r := rand.New(rand.NewPCG(1, uint64(k)))
					for range 25 {
						x := images(r, 1+r.IntN(4))
						want, err := p.Run(ctx, map[string]tensor.Value{"image": x})
						Expect(err).NotTo(HaveOccurred())
						have, err := c.Infer(ctx, request("digits", "image", x))
						Expect(err).NotTo(HaveOccurred(), form)
						Expect(have.ID).To(Equal("7"))
						Expect(have.Outputs).To(HaveLen(1))
						Expect(have.Outputs[0].Tensor.Shape).To(Equal([]int{x.Shape[0], 10}))
						Expect(have.Outputs[0].Tensor.Data).To(Equal(want["probabilities"].(*tensor.Tensor).Bytes()), form)
					}
				})
			}
			group.Wait()
		}
	})

	It("have the rows of each caller where requests are batched", func(ctx context.Context) {
		dir := models()
		Expect(modeltest.Configure(dir, "echo_fp32", "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 60000000 }")).To(Succeed())
		l, _ := started("-models", dir)
		c := askers(l)["gRPC"]
		for i := range 50 { // as many at a time as fill a batch, which waits for all of them
			var group sync.WaitGroup
			for k := range 8 {
				group.Go(func() {
					defer GinkgoRecover()
					x := tensor.From([]float32{float32(k), float32(i), 3}, 1, 3)
					have, err := c.Infer(ctx, request("echo_fp32", "x", x))
					Expect(err).NotTo(HaveOccurred())
					Expect(tensor.Elements[float32](have.Outputs[0].Tensor)).To(Equal([]float32{float32(k), float32(i), 3}))
				})
			}
			group.Wait()
		}
		_, body := ask(l, http.MethodGet, "/v2/models/echo_fp32/stats", "")
		stats := decoded(body)["model_stats"].([]any)[0].(map[string]any)
		Expect(stats["inference_count"]).To(BeEquivalentTo(400))
		Expect(stats["execution_count"]).To(BeEquivalentTo(50), "eight ran together")
	})

	It("carry every datatype both ways", func(ctx context.Context) {
		l, _ := started("-models", models())
		r := rand.New(rand.NewPCG(3, 4))
		for datatype, dtype := range modeltest.Datatypes {
			dt, ok := tensor.ParseDType(dtype)
			Expect(ok).To(BeTrue())
			x, err := tensor.New(dt, 5, 3)
			Expect(err).NotTo(HaveOccurred())
			for i := range x.Data {
				x.Data[i] = byte(r.Uint32())
				if dt == tensor.Bool {
					x.Data[i] &= 1
				}
			}
			for i := range x.Strings {
				x.Strings[i] = strings.Repeat("ü\x00", i)
			}
			for form, c := range askers(l) {
				have, err := c.Infer(ctx, request("echo_"+strings.ToLower(datatype), "x", x))
				Expect(err).NotTo(HaveOccurred(), form+" "+datatype)
				Expect(have.Outputs[0].Tensor.DType).To(Equal(dt))
				Expect(have.Outputs[0].Tensor.Strings).To(Equal(x.Strings))
				Expect(have.Outputs[0].Tensor.Data).To(Equal(x.Data), form+" "+datatype)
			}
		}
	})

	It("take all bytes but 0 for true", func(ctx context.Context) {
		l, _ := started("-models", models())
		for form, c := range askers(l) {
			have, err := c.Infer(ctx, request("echo_bool", "x", &tensor.Tensor{DType: tensor.Bool, Shape: []int{2, 3}, Data: []byte{2, 0, 255, 1, 0, 128}}))
			Expect(err).NotTo(HaveOccurred(), form)
			Expect(have.Outputs[0].Tensor.Data).To(Equal([]byte{1, 0, 1, 1, 0, 1}), form)
		}
	})

	It("keep sequences apart, and forget them at their end", func(ctx context.Context) {
		l, _ := started("-models", models())
		for form, c := range askers(l) {
			var group sync.WaitGroup
			for id := range uint64(8) {
				group.Go(func() {
					defer GinkgoRecover()
					sum := float32(0)
					for i := range 20 {
						r := request("total", "x", tensor.From([]float32{float32(id + 1)}))
						r.Sequence, r.Start, r.End = oip.SequenceID{Number: id + 1}, i == 0, i == 19
						have, err := c.Infer(ctx, r)
						Expect(err).NotTo(HaveOccurred(), form)
						sum += float32(id + 1)
						Expect(have.Outputs).To(HaveLen(1), "the state is not among the outputs")
						Expect(tensor.Elements[float32](have.Outputs[0].Tensor)).To(Equal([]float32{sum}))
					}
					r := request("total", "x", tensor.From([]float32{1}))
					r.Sequence = oip.SequenceID{Number: id + 1}
					_, err := c.Infer(ctx, r)
					Expect(err).To(MatchError(ContainSubstring("sequence_start")))
				})
			}
			group.Wait()
		}
	})
})

var _ = Describe("errors", func() {
	It("have the statuses that clients know", func(ctx context.Context) {
		l, _ := started("-models", "../quickstart")
		x := images(rand.New(rand.NewPCG(1, 1)), 1)
		rows := []struct {
			r    *oip.Request
			http int
			grpc codes.Code
			says string
		}{
			{request("nothing", "image", x), 404, codes.NotFound, "unknown model"},
			{&oip.Request{Model: "digits", Version: "9", Inputs: []oip.Named{{Name: "image", Tensor: x}}}, 404, codes.NotFound, "version 9"},
			{&oip.Request{Model: "digits", Version: "x", Inputs: []oip.Named{{Name: "image", Tensor: x}}}, 400, codes.InvalidArgument, "decimal"},
			{request("digits", "picture", x), 400, codes.InvalidArgument, "'picture'"},
			{request("digits", "image", tensor.From(make([]float64, 64), 1, 1, 8, 8)), 400, codes.InvalidArgument, "FP64"},
			{request("digits", "image", tensor.From(make([]float32, 63), 1, 1, 7, 9)), 400, codes.InvalidArgument, "[1 1 7 9]"},
			{&oip.Request{Model: "digits"}, 400, codes.InvalidArgument, "expected input 'image'"},
			{&oip.Request{Model: "digits", Inputs: []oip.Named{{Name: "image", Tensor: x}}, Outputs: []oip.Output{{Name: "z"}}}, 400, codes.InvalidArgument, "'z'"},
		}
		for _, row := range rows {
			for form, c := range askers(l) {
				_, err := c.Infer(ctx, row.r)
				Expect(err).To(MatchError(ContainSubstring(row.says)), form)
				if form == "HTTP" {
					Expect(err).To(HaveField("Status", row.http))
				} else {
					Expect(status.Code(err)).To(Equal(row.grpc), form)
				}
			}
		}
	})

	It("have JSON bodies on every path", func() {
		l, _ := started("-models", "../quickstart")
		for _, row := range [][3]string{
			{"GET", "/", "404"}, {"GET", "/v2/nothing", "404"}, {"DELETE", "/v2", "405"}, {"GET", "/v2/models/digits/infer", "405"}, {"GET", "/v2/models/x", "404"},
			{"POST", "/v2/models/digits/infer", "400"}, {"POST", "/v2/repository/models/digits/unload", "503"}, {"GET", "/v2/models/digits/versions/0/ready", "400"},
		} {
			code, body := ask(l, row[0], row[1], "")
			Expect(fmt.Sprint(code)).To(Equal(row[2]), row[1])
			Expect(decoded(body)["error"]).NotTo(BeEmpty())
		}
	})

	It("are typed for requests that lie or are no requests", func() {
		l, _ := started("-models", models())
		in := func(more string) string {
			return `{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32"` + more + `}]}`
		}
		for _, row := range []struct{ body, says string }{
			{"", "JSON"}, {"[", "JSON"}, {"[]", "JSON"}, {`{"inputs":{}}`, "JSON"}, {strings.Repeat("[", 1e6), "JSON"}, {in(""), "no data"},
			{in(`,"data":[1,2]`), "2 elements"}, {in(`,"data":[1,2,3,4]`), "more than"}, {in(`,"data":[[1,2],[3]]`), "unevenly"}, {in(`,"data":[[1],[2],[3]]`), "nested as"},
			{in(`,"data":[1,[2],3]`), "arrays beside"}, {in(`,"data":[[1],2,3]`), "several depths"}, {in(`,"data":["a",2,3]`), "no float32"}, {in(`,"data":[1e99,2,3]`), "cannot hold"},
			{in(`,"data":[null,2,3]`), "no float32"}, {in(`,"data":{"a":3}`), "no array"}, {in(`,"data":1234`), "no array"}, {in(`,"data":` + strings.Repeat("[", 70) + "1" + strings.Repeat("]", 70)), "deeper"},
			{in(`,"parameters":{"binary_data_size":12}`), "without the header"}, {in(`,"parameters":{"shared_memory_region":"r"}`), "shared memory"},
			{`{"inputs":[{"name":"x","shape":[4611686018427387904,4],"datatype":"FP32","data":[1]}]}`, "more than"},
			{`{"inputs":[{"name":"x","shape":[-1,3],"datatype":"FP32","data":[1]}]}`, "-1"},
			{`{"inputs":[{"name":"x","shape":[1,3],"datatype":"FLOAT","data":[1]}]}`, "FLOAT"},
			{`{"parameters":{"priority":-1},"inputs":[]}`, "priority"}, {`{"parameters":{"timeout":"x"},"inputs":[]}`, "timeout"}, {`{"parameters":{"binary_data_output":3}}`, "binary_data_output"},
			{`{"parameters":{"sequence_start":1}}`, "sequence_start"}, {`{"parameters":{"a":{}}}`, "neither"},
		} {
			code, body := ask(l, "POST", "/v2/models/echo_fp32/infer", row.body)
			Expect(code).To(BeElementOf(400, 501), row.body)
			Expect(decoded(body)["error"]).To(ContainSubstring(row.says), row.body[:min(len(row.body), 100)])
		}
		for _, row := range []struct{ head, body, says string }{
			{"x", "", "no number"}, {"-1", "", "no number"}, {"99999999999999999999", "", "no number"}, {"1000", "{}", "announced"},
			{"90", in(`,"parameters":{"binary_data_size":12}`) + "123", "announces"}, {"90", in(`,"parameters":{"binary_data_size":13}`) + "1234567890123", "expecting 12"},
			{"90", in(`,"parameters":{"binary_data_size":12}`) + "123456789012x", "additional"}, {"0", "123", "no input"},
		} {
			if row.head == "90" {
				row.head = fmt.Sprint(strings.LastIndex(row.body, "}") + 1)
			}
			q, err := http.NewRequest("POST", "http://"+l.Addr("http").String()+"/v2/models/echo_fp32/infer", bytes.NewBufferString(row.body))
			Expect(err).NotTo(HaveOccurred())
			q.Header.Set("Inference-Header-Content-Length", row.head)
			a, err := http.DefaultClient.Do(q)
			Expect(err).NotTo(HaveOccurred())
			var b bytes.Buffer
			_, err = b.ReadFrom(a.Body)
			Expect(err).NotTo(HaveOccurred())
			a.Body.Close()
			Expect(a.StatusCode).To(Equal(400), row.head)
			Expect(decoded(b.String())["error"]).To(ContainSubstring(row.says))
		}
	})
})

var _ = Describe("health", func() {
	It("is told in all forms, with the keys of all servers", func(ctx context.Context) {
		l, _ := started("-models", "../quickstart")
		for _, path := range []string{"live", "ready"} {
			code, body := ask(l, "GET", "/v2/health/"+path, "")
			Expect(code).To(Equal(200))
			Expect(decoded(body)).To(Equal(map[string]any{"live": true, "ready": true}))
		}
		a, err := healthpb.NewHealthClient(dial(l, "grpc")).Check(ctx, &healthpb.HealthCheckRequest{})
		Expect(err).NotTo(HaveOccurred())
		Expect(a.GetStatus()).To(Equal(healthpb.HealthCheckResponse_SERVING))
	})

	It("leaves the protocol's package to programs that have stubs of their own", func() {
		protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
			Expect(string(f.Package())).NotTo(HavePrefix("inference"))
			return true
		})
	})
})

var _ = Describe("the end of a server", func() {
	It("loses no accepted request under load", func(ctx context.Context) {
		for _, form := range []string{"HTTP", "gRPC", "gRPC on HTTP's port"} {
			l, stop := started("-models", models(), "-linger", "200ms")
			c := askers(l)[form]
			var group sync.WaitGroup
			var answered, lost atomic.Int64
			for k := range 8 {
				group.Go(func() {
					defer GinkgoRecover()
					for i := 0; ; i++ {
						x := tensor.From([]float32{float32(k), float32(i), 1}, 1, 3)
						have, err := c.Infer(ctx, request("echo_fp32", "x", x))
						if err != nil {
							// A reset is the kernel's answer to a connection that the server had not accepted when the port closed.
							if s := err.Error(); !strings.Contains(s, "refused") && !strings.Contains(s, "shutting down") && !strings.Contains(s, "reset by peer") {
								lost.Add(1)
								GinkgoWriter.Println(form, err)
							}
							return
						}
						Expect(have.Outputs[0].Tensor.Data).To(Equal(x.Data))
						answered.Add(1)
					}
				})
			}
			Eventually(answered.Load).Should(BeNumerically(">", 100), form)
			Expect(stop()).To(Succeed())
			group.Wait()
			Expect(lost.Load()).To(BeZero(), form)
		}
	})
})
