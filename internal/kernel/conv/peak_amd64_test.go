package conv

func peaks() (p512, p256 func(int)) { return peak512, peak256 }
