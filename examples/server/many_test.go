package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
)

// peak returns the most bytes that the process has had in memory; the spec is skipped where the system does not tell.
func (p *process) peak() int64 {
	GinkgoHelper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		Skip("the system does not tell how much memory a process has had")
	}
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	if !found {
		Skip("the system does not tell how much memory a process has had")
	}
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	Expect(err).NotTo(HaveOccurred())
	return n << 10
}

// manyBytes is how long the messages of these specs are.
const manyBytes = 8 << 20

// times returns a text again and again, manyBytes long.
func times(text string) string { return strings.Repeat(text, manyBytes/len(text)) }

var _ = Describe("messages that list millions of things of a few bytes each", func() {
	// A message of 8 MiB has copies of itself, and as much garbage as Go leaves: nothing is kept of each thing.
	const most = 96 << 20

	DescribeTable("over gRPC have a typed error, and take no more memory than others of their size",
		func(ctx SpecContext, message, says string) {
			p := spawned("-models", models(), "-model-control", "explicit")
			code, body := p.post("/v2/repository/models/echo_fp32/load", "")
			Expect(code).To(Equal(200), body)
			before := p.peak()
			message = "\x0a\x09echo_fp32" + message
			status, text := raw(ctx, p.addresses["grpc"], append(frame(uint32(len(message))), message...), false)
			Expect(status).To(Equal(codes.InvalidArgument), text)
			Expect(text).To(ContainSubstring(says))
			Expect(p.peak() - before).To(BeNumerically("<", most))
			for form, c := range p.askers() {
				Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
			}
		},
		Entry("inputs", times("\x2a\x00"), "more than 4096 inputs"),
		Entry("outputs", times("\x32\x00"), "more than 4096 outputs"),
		Entry("raw contents", times("\x3a\x00"), "more than 4096 raw_input_contents"),
		Entry("dims", string(protowire.AppendBytes([]byte("\x2a"), protowire.AppendString([]byte("\x12\x04FP32\x1a"), times("\x01")))), "more than 64 dims"),
	)

	DescribeTable("over HTTP have a typed error, and take no more memory than others of their size",
		func(ctx SpecContext, path, message, says string) {
			p := spawned("-models", models(), "-model-control", "explicit")
			code, body := p.post("/v2/repository/models/echo_fp32/load", "")
			Expect(code).To(Equal(200), body)
			before := p.peak()
			code, body = p.post(path, message)
			Expect(code).To(Equal(400), body)
			Expect(body).To(ContainSubstring(says))
			Expect(p.peak() - before).To(BeNumerically("<", most))
			for form, c := range p.askers() {
				Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
			}
		},
		Entry("inputs", "/v2/models/echo_fp32/infer", `{"inputs":[`+times("{},")+`{}]}`, "more than 4096 inputs"),
		Entry("outputs", "/v2/models/echo_fp32/infer", `{"inputs":[],"outputs":[`+times("{},")+`{}]}`, "more than 4096 outputs"),
		Entry("dims", "/v2/models/echo_fp32/infer", `{"inputs":[{"name":"x","datatype":"FP32","shape":[`+times("1,")+`1],"data":[]}]}`, "more than 64 dims"),
		Entry("arrays in a call to load", "/v2/repository/models/digits/load", `{"parameters":{"config":[`+times("[],")+`[]]}}`, "has to be a string"),
		Entry("files", "/v2/repository/models/digits/load", `{"parameters":{`+files(10001)+`"config":"{}"}}`, "more than 10000 files"),
		Entry("entries of a configuration", "/v2/repository/models/digits/load", `{"parameters":{"config":"{\"input\":[`+times("{},")+`{}]}"}}`, "at most 1048576 are taken"),
	)
})

// files returns the members of a call to load for so many empty files.
func files(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"file:1/%d":"",`, i)
	}
	return b.String()
}

var _ = Describe("tensors that take more memory than they have bytes in their message", func() {
	It("count among the bytes of all requests", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit", "-max-bytes", "1000000")
		load(l, "echo_int64")
		load(l, "echo_bytes")
		const n = 200_000 // numbers of 8 bytes, strings of 16, in 2 and 3 bytes each
		numbers := `{"inputs":[{"name":"x","shape":[1,` + strconv.Itoa(n) + `],"datatype":"INT64","data":[` + strings.Repeat("1,", n-1) + `1]}]}`
		texts := `{"inputs":[{"name":"x","shape":[1,` + strconv.Itoa(n) + `],"datatype":"BYTES","data":[` + strings.Repeat(`"",`, n-1) + `""]}]}`
		for model, body := range map[string]string{"echo_int64": numbers, "echo_bytes": texts} {
			status, answer := ask(l, http.MethodPost, "/v2/models/"+model+"/infer", body)
			Expect(status).To(Equal(503), answer)
			Expect(answer).To(ContainSubstring("have 1000000 bytes together"))
		}
		for model, contents := range map[string]string{
			"echo_int64": string(protowire.AppendString([]byte("\x1a"), strings.Repeat("\x01", n))), "echo_bytes": strings.Repeat("\x42\x00", n),
		} {
			shape := string(protowire.AppendBytes([]byte("\x1a"), protowire.AppendVarint([]byte{1}, n)))
			input := "\x0a\x01x" + string(protowire.AppendString([]byte("\x12"), strings.ToUpper(strings.TrimPrefix(model, "echo_")))) + shape +
				string(protowire.AppendString([]byte("\x2a"), contents))
			message := string(protowire.AppendString([]byte("\x0a"), model)) + string(protowire.AppendString([]byte("\x2a"), input))
			code, text := raw(ctx, l.Addr("grpc").String(), append(frame(uint32(len(message))), message...), false)
			Expect(code).To(Equal(codes.ResourceExhausted), text)
			Expect(text).To(ContainSubstring("have 1000000 bytes together"))
		}
		status, answer := ask(l, http.MethodPost, "/v2/models/echo_int64/infer", `{"inputs":[{"name":"x","shape":[1,3],"datatype":"INT64","data":[1,2,3]}]}`)
		Expect(status).To(Equal(200), answer)
	})
})

var _ = Describe("errors about names of any length", func() {
	It("are short", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit")
		load(l, "echo_fp32")
		long := strings.Repeat("n", 1<<20)
		input := string(protowire.AppendString([]byte("\x0a"), long)) + "\x12\x04FP32\x1a\x02\x01\x03"
		message := "\x0a\x09echo_fp32" + string(protowire.AppendString([]byte("\x2a"), input)) + "\x3a\x01a"
		code, text := raw(ctx, l.Addr("grpc").String(), append(frame(uint32(len(message))), message...), false)
		Expect(code).To(Equal(codes.InvalidArgument))
		Expect(text).To(ContainSubstring("unexpected total byte size 1 for input"))
		Expect(len(text)).To(BeNumerically("<", 3000))

		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr("http").String()+"/v2/models/echo_fp32/infer",
			strings.NewReader(`{"inputs":[{"name":"`+long+`","shape":[1,3],"datatype":"FP32","parameters":{"binary_data_size":1}}]}x`))
		Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Inference-Header-Content-Length", strconv.Itoa(int(r.ContentLength)-1))
		a, err := http.DefaultClient.Do(r)
		Expect(err).NotTo(HaveOccurred())
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(a.StatusCode).To(Equal(400))
		Expect(string(body)).To(ContainSubstring("unexpected total byte size 1 for input"))
		Expect(len(body)).To(BeNumerically("<", 3000))
	})
})

var _ = Describe("text that is no UTF-8", func() {
	It("has a typed error where protobuf and JSON have none of it", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit")
		load(l, "echo_bytes")
		for _, part := range []string{"\x0a\x01\xff", "\x12\x01\xff", "\x1a\x01\xff", "\x2a\x03\x0a\x01\xff", "\x2a\x03\x12\x01\xff", "\x32\x03\x0a\x01\xff"} {
			message := "\x0a\x0aecho_bytes" + part
			code, text := raw(ctx, l.Addr("grpc").String(), append(frame(uint32(len(message))), message...), false)
			Expect(code).To(Equal(codes.InvalidArgument), "%q: %s", part, text)
			Expect(text).To(ContainSubstring("no UTF-8"))
		}
		for _, body := range []string{
			"{\"id\":\"\xff\",\"inputs\":[]}", "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,1],\"datatype\":\"BYTES\",\"data\":[\"\xff\"]}]}",
		} {
			status, answer := ask(l, http.MethodPost, "/v2/models/echo_bytes/infer", body)
			Expect(status).To(Equal(400), answer)
			Expect(answer).To(ContainSubstring("no UTF-8"))
		}
	})

	It("is not answered in JSON, which would change it, but in binary", func(ctx SpecContext) {
		l, _ := started("-models", models(), "-model-control", "explicit")
		load(l, "echo_bytes")
		head := `{"inputs":[{"name":"x","shape":[1,3],"datatype":"BYTES","parameters":{"binary_data_size":13}}],"outputs":[{"name":"y","parameters":{"binary_data":%t}}]}`
		bytes := "\x01\x00\x00\x00\xff" + strings.Repeat("\x00", 8)
		for binary, want := range map[bool]int{true: 200, false: 400} {
			json := fmt.Sprintf(head, binary)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr("http").String()+"/v2/models/echo_bytes/infer", strings.NewReader(json+bytes))
			Expect(err).NotTo(HaveOccurred())
			r.Header.Set("Inference-Header-Content-Length", strconv.Itoa(len(json)))
			a, err := http.DefaultClient.Do(r)
			Expect(err).NotTo(HaveOccurred())
			body, err := io.ReadAll(a.Body)
			Expect(err).NotTo(HaveOccurred())
			Expect(a.Body.Close()).To(Succeed())
			Expect(a.StatusCode).To(Equal(want), string(body))
			if binary {
				Expect(string(body)).To(HaveSuffix(bytes))
			} else {
				Expect(string(body)).To(ContainSubstring("ask for binary data"))
			}
		}
	})
})

var _ = Describe("a raw body for several strings", func() {
	It("is the client's fault", func() {
		l, _ := started("-models", models(), "-model-control", "explicit")
		load(l, "echo_bytes")
		r, err := http.NewRequest(http.MethodPost, "http://"+l.Addr("http").String()+"/v2/models/echo_bytes/infer", strings.NewReader("text"))
		Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Inference-Header-Content-Length", "0")
		a, err := http.DefaultClient.Do(r)
		Expect(err).NotTo(HaveOccurred())
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(a.StatusCode).To(Equal(400), string(body))
		Expect(string(body)).To(ContainSubstring("a raw body is no input [-1 3] of BYTES"))
	})
})

var _ = Describe("a raw body for a model whose rows are larger than any", func() {
	It("is refused, though the size of a row is beyond 64 bits", func() {
		dir := GinkgoT().TempDir()
		Expect(modeltest.Write(dir, "wide", 1, "graph \"wide\" {\n  opset 17\n  input %x: f32[N,2147483648,2147483648]\n  %y: i64[3] = Shape(%x)\n  output %y\n}")).To(Succeed())
		l, _ := started("-models", dir)
		r, err := http.NewRequest(http.MethodPost, "http://"+l.Addr("http").String()+"/v2/models/wide/infer", strings.NewReader("12345678"))
		Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Inference-Header-Content-Length", "0")
		a, err := http.DefaultClient.Do(r)
		Expect(err).NotTo(HaveOccurred())
		defer a.Body.Close()
		Expect(a.StatusCode).To(Equal(http.StatusRequestEntityTooLarge))
	})
})
