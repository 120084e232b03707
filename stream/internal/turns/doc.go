// Package turns lets several goroutines use one loop of package reactor, one at a time.
//
// A goroutine owns the loop from Lock to Unlock, and may then run turns of the loop and
// use its connections. If other goroutines wait for the loop, Unlock passes the loop to
// the one that has waited longest.
//
// While no goroutine owns the loop, it is in one of two states. If it is armed, the
// descriptor of the loop becomes readable when there is work, and the watcher runs a
// turn. The watcher is a goroutine of this package. Arming takes system calls, so a
// goroutine that soon owns the loop again leaves it unarmed. The watcher then runs turns
// and arms the loop within about two milliseconds.
package turns
