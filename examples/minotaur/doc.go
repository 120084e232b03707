// Package minotaur tests package gnetrdma with a gnet.EventHandler that nobody of this
// project wrote: stream.GNETEventHandler of github.com/kercylan98/minotaur, which turns
// each connection into an actor.
//
// The test is a module of its own, so that the library does not depend on minotaur.
package minotaur
