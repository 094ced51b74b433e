package cpuid

import "golang.org/x/sys/windows"

// system asks Windows for what package cpu does not.
func system() (f Features) {
	proc := windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessorFeaturePresent")
	if proc.Find() != nil {
		return 0
	}
	for _, e := range []struct {
		number  uintptr
		feature Features
	}{
		{66, I8MM}, {67, ASIMDHP}, {68, BF16}, // PF_ARM_V82_I8MM, PF_ARM_V82_FP16 and PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE
	} {
		if has, _, _ := proc.Call(e.number); has != 0 { // which does not fail
			f |= e.feature
		}
	}
	return f
}
