# class: full
# Memory windows, SEND with invalidate, and their keys at the other end.
pairtest window
reactor_pair TestReactorWindows
