"""Readers, one module per kind of file that users bring; `narrows.data.load` chooses by the ending.

archives        NumPy's .npy and .npz
csv, parquet    table files; tables reads both
hdf5            .h5 and .hdf5
images          folders of images
hub             sets of the Hugging Face hub
torch_datasets  torch Datasets in memory
shared          what the readers have in common

To add a file format, write a module here and add its ending and its reader to load.py.
"""
