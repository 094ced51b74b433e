package cpuid

import "golang.org/x/sys/cpu"

// detect returns ASIMD, as Go runs on no arm64 processor without it, and what the operating system says of the rest: programs may not
// ask the processor itself. What package cpu does not know of a system, or says otherwise there than kernels need it, system adds.
func detect() Features {
	f := ASIMD | system()
	if cpu.ARM64.HasFPHP && cpu.ARM64.HasASIMDHP {
		f |= ASIMDHP
	}
	if cpu.ARM64.HasASIMDDP {
		f |= ASIMDDP
	}
	if cpu.ARM64.HasI8MM {
		f |= I8MM
	}
	if !f.Has(ASIMDDP) {
		f &^= I8MM
	}
	return f
}

// Model tells processors apart as far as is known here: by architecture.
func Model() string { return "arm64" }
