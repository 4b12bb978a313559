//! Every code block of the book is a doctest here.
