//! Libraries that others wrote, from a public registry: what is made here they verify, and the
//! reverse.
