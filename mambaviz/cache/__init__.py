"""The paged cache: who owns which block (pure Python) and the state tensors behind the ids."""
