package conv

// Peak512 and Peak256 run n times 12 register-only multiply-adds.
var Peak512, Peak256 = peaks()
