package main

import (
	"context"
	"io"
	"net"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
)

// wide is a model of few numbers in and 4 MiB out.
const wide = `graph "wide" {
  opset 17
  input %x: f32[1]
  const %size = i64[1]{1048576}
  %y: f32[1048576] = Expand(%x, %size)
  output %y
}`

// ask begins a request on a connection by hand.
func (f frames) ask(id uint32, end bool, path, body string, more ...string) {
	GinkgoHelper()
	var block strings.Builder
	e := hpack.NewEncoder(&block)
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "x"}, more...)
	for i := 0; i < len(fields); i += 2 {
		Expect(e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})).To(Succeed())
	}
	Expect(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()), EndHeaders: true})).To(Succeed())
	Expect(f.WriteData(id, end, []byte(body))).To(Succeed())
}

const (
	unary    = "/inference.GRPCInferenceService/ModelInfer"
	streamed = "/inference.GRPCInferenceService/ModelStreamInfer"
)

// unreading opens a connection that never says that there is room for answers.
func unreading(address string) frames {
	GinkgoHelper()
	conn, err := net.Dial("tcp", address)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = conn.Close() }) // which may be over
	Expect(conn.SetDeadline(time.Now().Add(time.Minute))).To(Succeed())
	_, err = io.WriteString(conn, http2.ClientPreface)
	Expect(err).NotTo(HaveOccurred())
	f := frames{conn, http2.NewFramer(conn, conn)}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	Expect(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})).To(Succeed())
	return f
}

// refused reads until a call has ended with an error, and returns it.
func (f frames) refused() (codes.Code, string) {
	GinkgoHelper()
	for {
		h := f.next(http2.FrameHeaders).(*http2.MetaHeadersFrame)
		code, text := codes.OK, ""
		for _, x := range h.RegularFields() {
			switch x.Name {
			case "grpc-status":
				Expect(code.UnmarshalJSON([]byte(x.Value))).To(Succeed())
			case "grpc-message":
				text = x.Value
			}
		}
		if code != codes.OK {
			return code, text
		}
	}
}

var _ = Describe("answers that a client does not read", func() {
	const limit, calls = 64 << 20, 60 // of 4 MiB; a connection may have a quarter of the limit
	question := "\x0a\x04wide" + "\x2a\x0c\x0a\x01x\x12\x04FP32\x1a\x01\x01" + "\x3a\x04\x00\x00\x80\x3f"

	DescribeTable("take over gRPC no more memory than a connection may have, and are refused beyond that", func(ctx SpecContext, port, path, setting string, more []string) {
		dir := models()
		Expect(modeltest.Write(dir, "wide", 1, wide)).To(Succeed())
		p := spawned("-models", dir, "-max-bytes", "67108864", setting)
		before := p.peak()
		for range 3 { // a connection that is closed leaves nothing behind
			f := unreading(p.addresses[port])
			for i := range calls {
				f.ask(uint32(2*i+1), path == unary, path, string(frame(uint32(len(question))))+question,
					append([]string{"content-type", "application/grpc", "te", "trailers", "user-agent", "grpc-c++/1"}, more...)...)
			}
			if path == unary {
				code, text := f.refused()
				Expect(code).To(Equal(codes.ResourceExhausted), text)
				Expect(text).To(ContainSubstring("of answers that its client has not read, 16777216 are kept"))
			} else {
				time.Sleep(time.Second)
			}
			for form, c := range p.askers() {
				Expect(echoes(context.Background(), c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
			}
			Expect(f.Close()).To(Succeed())
		}
		GinkgoWriter.Println("peak before and after:", before>>20, p.peak()>>20, "MiB")
		Expect(p.peak()-before).To(BeNumerically("<", 5*limit/2), "240 MiB and more without a bound; 60 as a rule, and what a busy machine collects late")
		for range 2 * limit / (4 << 20) { // what is read is not counted any more
			code, text := raw(ctx, p.addresses[port], append(frame(uint32(len(question))), question...), false)
			Expect(code).To(Equal(codes.OK), text)
		}
	},
		Entry("on gRPC's port", "grpc", unary, "-mixed=false", nil),
		Entry("on HTTP's", "http", unary, "-mixed=false", nil),
		Entry("behind net/http", "http", unary, "-mixed", nil),
		Entry("of streams", "grpc", streamed, "-mixed=false", nil),
		Entry("compressed", "grpc", unary, "-mixed=false", []string{"grpc-accept-encoding", "gzip", "grpc-encoding", "gzip"}),
	)

	It("are counted over HTTP, too", func(ctx SpecContext) {
		dir := models()
		Expect(modeltest.Write(dir, "wide", 1, wide)).To(Succeed())
		p := spawned("-models", dir, "-max-bytes", "67108864")
		f := unreading(p.addresses["http"])
		for i := range calls {
			f.ask(uint32(2*i+1), true, "/v2/models/wide/infer", `{"parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}`)
		}
		for f.next(http2.FrameHeaders).(*http2.MetaHeadersFrame).PseudoValue("status") != "503" {
		}
		Expect(f.Close()).To(Succeed())
		Eventually(func() codes.Code {
			code, _ := raw(ctx, p.addresses["grpc"], append(frame(uint32(len(question))), question...), false)
			return code
		}).Should(Equal(codes.OK))
	})
})
