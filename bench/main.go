// Command bench measures rdmaloop beside what one would use instead, and beside
// what the machine allows. See README.md.
package main

func main() {}
